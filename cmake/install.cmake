# What `cmake --install` puts where, beside the program (cmd/CMakeLists.txt): library, headers, pkg-config file, CMake package,
# manual pages, completions.
include(CMakePackageConfigHelpers)

install(TARGETS partlog EXPORT partlogTargets LIBRARY)
install(DIRECTORY lib/include/partlog TYPE INCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/partlog)
install(EXPORT partlogTargets NAMESPACE partlog:: FILE partlogConfig.cmake DESTINATION ${package_dir})
write_basic_package_version_file(partlogConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/partlogConfigVersion.cmake DESTINATION ${package_dir})

# Relative to itself, so that the tree may be installed to any prefix, and moved.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/partlog.pc.in partlog.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/partlog.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 FILES_MATCHING PATTERN "*.5")
install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 FILES_MATCHING PATTERN "*.7")
install(FILES completions/partlog.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME partlog)
install(FILES completions/_partlog DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/partlog.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md CHANGELOG.md LICENSE TYPE DOC)

// The kernel's table of mounts (/proc/self/mountinfo, proc(5)). Private to os/, and for its tests.
#pragma once

#include <string>
#include <string_view>

namespace partlog::os {

// Why POSIX locks on the mount that `path` (absolute, without symbolic links) on `device` ("major:minor") lies on do not reach
// other hosts: the mount option that says so. Empty: no such option, or no such mount. Among the mounts of that device it is
// the one with the longest mount point above the path, and of several there the last mounted.
std::string lock_fault_of(std::string_view mountinfo, std::string_view device, std::string_view path);

}  // namespace partlog::os

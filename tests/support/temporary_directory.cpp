#include "support/temporary_directory.h"

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>

namespace partlog::test {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory() : TemporaryDirectory(fs::temp_directory_path().string()) {}

TemporaryDirectory::TemporaryDirectory(const std::string& parent)
    : path_(((fs::is_directory(parent) ? fs::path(parent) : fs::temp_directory_path()) / "partlog-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace partlog::test

#include "support/temporary_directory.h"

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>

namespace partlog::test {

TemporaryDirectory::TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "partlog-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace partlog::test

// A directory of one test's own, removed with everything in it at the end.
#pragma once

#include <string>

namespace partlog::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  // Below another directory, if that is there; for tests that sync too often for a disk, "/dev/shm".
  explicit TemporaryDirectory(const std::string& parent);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace partlog::test

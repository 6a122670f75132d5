// The system calls that touch stored data, behind one interface, so that a test can fail the n-th of them, record them, or drop
// what was not synced. The default implementation calls the kernel; each returns what the call returns and sets errno.
// Nothing else in the project calls these functions of the kernel directly.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace partlog::os {

class System {
 public:
  virtual ~System() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int close(int fd);
  virtual ssize_t pread(int fd, void* data, size_t size, off_t position);
  virtual ssize_t pwrite(int fd, const void* data, size_t size, off_t position);
  virtual int ftruncate(int fd, off_t size);
  virtual int fallocate(int fd, int mode, off_t position, off_t size);
  virtual int fdatasync(int fd);
  virtual int fsync(int fd);
  virtual int fstat(int fd, struct stat* status);
  virtual int stat(const char* path, struct stat* status);
  virtual int lstat(const char* path, struct stat* status);
  virtual int rename(const char* from, const char* to);
  virtual int link(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int rmdir(const char* path);
};

// The one in force. Not to be replaced while other threads use files.
System& system();

// Puts another in force for its lifetime (tests).
class ScopedSystem {
 public:
  explicit ScopedSystem(System& replacement);
  ~ScopedSystem();
  ScopedSystem(const ScopedSystem&) = delete;
  ScopedSystem& operator=(const ScopedSystem&) = delete;

 private:
  System* previous_;
};

}  // namespace partlog::os

#include "os/system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include "os/failure.h"

namespace partlog::os {

int System::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
int System::close(int fd) { return ::close(fd); }
ssize_t System::pread(int fd, void* data, size_t size, off_t position) { return ::pread(fd, data, size, position); }
ssize_t System::pwrite(int fd, const void* data, size_t size, off_t position) { return ::pwrite(fd, data, size, position); }
int System::ftruncate(int fd, off_t size) { return ::ftruncate(fd, size); }
int System::fallocate(int fd, int mode, off_t position, off_t size) { return ::fallocate(fd, mode, position, size); }
int System::fdatasync(int fd) { return ::fdatasync(fd); }
int System::fsync(int fd) { return ::fsync(fd); }
int System::fstat(int fd, struct stat* status) { return ::fstat(fd, status); }
int System::stat(const char* path, struct stat* status) { return ::stat(path, status); }
int System::lstat(const char* path, struct stat* status) { return ::lstat(path, status); }
int System::rename(const char* from, const char* to) { return ::rename(from, to); }
int System::link(const char* from, const char* to) { return ::link(from, to); }
int System::unlink(const char* path) { return ::unlink(path); }
int System::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }
int System::rmdir(const char* path) { return ::rmdir(path); }

namespace {

// Never destroyed: files may still be closed while the process ends.
System*& in_force() {
  static System* system = new System;
  return system;
}

}  // namespace

System& system() { return *in_force(); }

ScopedSystem::ScopedSystem(System& replacement) : previous_(std::exchange(in_force(), &replacement)) {}
ScopedSystem::~ScopedSystem() { in_force() = previous_; }

std::string reason(int error) { return std::generic_category().message(error); }

void fail(const std::string& what, int error) {
  ErrorCode code = error == ENOENT ? ErrorCode::not_found : error == EEXIST ? ErrorCode::already_exists : ErrorCode::io;
  throw Error(code, what + ": " + reason(error), error);
}

}  // namespace partlog::os

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "support/faulty_system.h"

namespace partlog::test {

void FailingSystem::fail(long nth, int error, bool for_good) {
  std::lock_guard guard(mutex_);
  nth_ = nth;
  error_ = error;
  for_good_ = for_good;
  shorten_ = false;
  fired_ = false;
}

void FailingSystem::shorten_write(long nth, int error) {
  fail(nth, error);
  shorten_ = true;
  shortened_ = false;
  writes_ = 0;
}

void FailingSystem::before(long nth, std::function<void()> action) {
  fail(nth, 0);
  std::lock_guard guard(mutex_);
  action_ = std::move(action);
}

long FailingSystem::calls() const {
  std::lock_guard guard(mutex_);
  return calls_;
}

bool FailingSystem::fired() const {
  std::lock_guard guard(mutex_);
  return fired_;
}

bool FailingSystem::fails(Kind kind) {
  std::lock_guard guard(mutex_);
  bool counted = kind == Kind::write || count_ == Count::all || (count_ == Count::changes && kind == Kind::change);
  if (!counted) return false;
  ++calls_;
  if (nth_ == 0 || shorten_) return false;
  if (calls_ != nth_ && !(for_good_ && calls_ > nth_)) return false;
  fired_ = true;
  if (action_) {
    action_();
    return false;
  }
  errno = error_;
  return true;
}

int FailingSystem::open(const char* path, int flags, mode_t mode) {
  return fails((flags & O_CREAT) != 0 ? Kind::change : Kind::read) ? -1 : below_->open(path, flags, mode);
}

int FailingSystem::close(int fd) {
  int result = below_->close(fd);
  return fails(Kind::read) ? -1 : result;
}

ssize_t FailingSystem::pread(int fd, void* data, size_t size, off_t position) {
  return fails(Kind::read) ? -1 : below_->pread(fd, data, size, position);
}

ssize_t FailingSystem::pwrite(int fd, const void* data, size_t size, off_t position) {
  if (fails(Kind::write)) return -1;
  std::unique_lock lock(mutex_);
  if (shorten_ && shortened_ && !fired_) {
    fired_ = true;
    errno = error_;
    return -1;
  }
  if (shorten_ && !shortened_ && ++writes_ == nth_) {
    shortened_ = true;
    if (size > 1) return below_->pwrite(fd, data, size / 2, position);
    fired_ = true;
    errno = error_;
    return -1;
  }
  lock.unlock();
  return below_->pwrite(fd, data, size, position);
}

int FailingSystem::ftruncate(int fd, off_t size) { return fails(Kind::change) ? -1 : below_->ftruncate(fd, size); }

int FailingSystem::fallocate(int fd, int mode, off_t position, off_t size) {
  return fails(Kind::change) ? -1 : below_->fallocate(fd, mode, position, size);
}

int FailingSystem::fdatasync(int fd) { return fails(Kind::change) ? -1 : below_->fdatasync(fd); }
int FailingSystem::fsync(int fd) { return fails(Kind::change) ? -1 : below_->fsync(fd); }
int FailingSystem::fstat(int fd, struct stat* status) { return fails(Kind::read) ? -1 : below_->fstat(fd, status); }
int FailingSystem::stat(const char* path, struct stat* status) { return fails(Kind::read) ? -1 : below_->stat(path, status); }
int FailingSystem::lstat(const char* path, struct stat* status) { return fails(Kind::read) ? -1 : below_->lstat(path, status); }
int FailingSystem::rename(const char* from, const char* to) { return fails(Kind::change) ? -1 : below_->rename(from, to); }
int FailingSystem::link(const char* from, const char* to) { return fails(Kind::change) ? -1 : below_->link(from, to); }

int FailingSystem::unlink(const char* path) { return fails(Kind::change) ? -1 : below_->unlink(path); }
int FailingSystem::mkdir(const char* path, mode_t mode) { return fails(Kind::change) ? -1 : below_->mkdir(path, mode); }
int FailingSystem::rmdir(const char* path) { return fails(Kind::change) ? -1 : below_->rmdir(path); }

}  // namespace partlog::test

#include "os/file_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/exceptions.hpp>
#include <random>
#include <utility>

#include "os/directory.h"
#include "os/failure.h"
#include "os/lock_entry.h"

namespace partlog::os {

namespace {

using Clock = std::chrono::steady_clock;
using boost::interprocess::interprocess_exception;

[[noreturn]] void fail_lock(const std::string& path, int error) {
  if (error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS)
    throw Error(ErrorCode::refused, "lock " + path + ": this file system has no working locks (" + reason(error) + ")", error);
  fail("lock " + path, error);
}

// Between two looks at stop flag and clock while another thread of this process has the lock.
constexpr std::chrono::milliseconds between_looks{10};

// How long one attempt to lock goes on, and the sleeps between its tries.
class Patience {
 public:
  Patience(const LockWait& wait, const std::string& path) : wait_(wait), path_(path) {
    constexpr std::chrono::milliseconds for_ever = std::chrono::hours(24 * 365);
    if (wait.timeout) deadline_ = Clock::now() + std::min(*wait.timeout, for_ever);
  }

  bool stopped() const { return wait_.stop != nullptr && *wait_.stop; }
  void check_stop() const {
    if (stopped()) throw Error(ErrorCode::interrupted, "lock " + path_ + ": interrupted");
  }
  bool expired() const { return wait_.timeout && Clock::now() >= deadline_; }
  // Neither time-out nor flag: another thread of this process may be waited for without looking up.
  bool unconditional() const { return !wait_.timeout && wait_.stop == nullptr; }
  bool may_block() const { return !wait_.timeout && !wait_.poll; }

  // At most `length`, and not past the deadline.
  Clock::duration within(Clock::duration length) const {
    if (!wait_.timeout) return length;
    return std::clamp<Clock::duration>(deadline_ - Clock::now(), Clock::duration::zero(), length);
  }

  // Returns early on a signal, whose handler may have raised the flag.
  void pause() {
    auto length = std::chrono::nanoseconds(within(wait_.poll ? jitter() : next_));
    next_ = std::min<Clock::duration>(next_ * 2, std::chrono::milliseconds(2));
    timespec time{0, length.count()};
    ::nanosleep(&time, nullptr);
  }

 private:
  static Clock::duration jitter() {
    thread_local std::minstd_rand random(std::random_device{}());
    return std::chrono::microseconds(std::uniform_int_distribution<int>(10'000, 50'000)(random));
  }

  const LockWait& wait_;
  const std::string& path_;
  Clock::time_point deadline_;
  Clock::duration next_ = std::chrono::microseconds(50);
};

std::string describe(std::optional<int> holder) {
  if (!holder) return "another process";
  if (*holder == 0) return "a process on another host";
  return "process " + std::to_string(*holder);
}

// The place of one thread in front of the kernel's lock; given up unless kept.
class Place {
 public:
  static std::optional<Place> try_take(LockEntry& entry) {
    std::lock_guard guard(entry.mutex);
    if (std::exchange(entry.occupied, true)) return std::nullopt;
    return Place(entry);
  }
  // nullopt after the time-out.
  static std::optional<Place> take(LockEntry& entry, const Patience& patience) {
    std::unique_lock guard(entry.mutex);
    while (entry.occupied) {
      patience.check_stop();
      if (patience.expired()) return std::nullopt;
      if (patience.unconditional())
        entry.vacated.wait(guard);
      else
        entry.vacated.wait_for(guard, patience.within(between_looks));
    }
    entry.occupied = true;
    return Place(entry);
  }
  static void vacate(LockEntry& entry) {
    std::lock_guard guard(entry.mutex);
    entry.occupied = false;
    entry.vacated.notify_one();
  }

  Place(Place&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (entry_ != nullptr) vacate(*entry_);
  }
  void keep() {
    entry_->held = true;
    entry_ = nullptr;
  }

 private:
  explicit Place(LockEntry& entry) : entry_(&entry) {}
  LockEntry* entry_;
};

bool try_kernel(LockEntry& entry, const std::string& path) {
  for (;;) {
    try {
      return entry.kernel_lock.try_lock();
    } catch (const interprocess_exception& error) {
      if (error.get_native_error() != EINTR) fail_lock(path, error.get_native_error());
    }
  }
}

// False if the kernel takes it for a deadlock. Fairer than polling: beside a writer that locks again at once, a polling one can
// wait a second and more.
bool block_in_kernel(LockEntry& entry, const std::string& path, const Patience& patience) {
  for (;;) {
    try {
      entry.kernel_lock.lock();
      return true;
    } catch (const interprocess_exception& error) {
      int reason = error.get_native_error();
      if (reason == EDEADLK) return false;
      if (reason != EINTR) fail_lock(path, reason);
      patience.check_stop();
    }
  }
}

// False after the time-out.
bool wait_for_kernel(LockEntry& entry, const std::string& path, Patience& patience) {
  if (patience.may_block() && block_in_kernel(entry, path, patience)) return true;
  while (!try_kernel(entry, path)) {
    patience.check_stop();
    if (patience.expired()) return false;
    patience.pause();
  }
  return true;
}

}  // namespace

FileLock FileLock::open(const std::string& path, bool create) {
  return FileLock(LockRegistry::instance().open(path, create), path);
}

FileLock::Guard FileLock::lock(const LockWait& wait) const {
  if (auto guard = try_lock(wait)) return *std::move(guard);
  fail_busy(*wait.timeout);
}

void FileLock::fail_busy(std::chrono::milliseconds timeout) const {
  throw Error(ErrorCode::busy, path_ + ": lock held by " + describe(holder_of(*entry_, path_)) + " (time-out " +
                                   std::to_string(timeout.count()) + " ms)");
}

std::optional<FileLock::Guard> FileLock::try_lock(const LockWait& wait) const {
  Patience patience(wait, path_);
  if (patience.stopped()) {
    // Nothing is waited for any more, but what needs no waiting is finished.
    if (auto guard = try_lock()) return guard;
    patience.check_stop();
  }
  auto place = Place::take(*entry_, patience);
  if (!place || !wait_for_kernel(*entry_, path_, patience)) return std::nullopt;
  place->keep();
  return Guard(entry_);
}

std::optional<FileLock::Guard> FileLock::try_lock() const {
  auto place = Place::try_take(*entry_);
  if (!place || !try_kernel(*entry_, path_)) return std::nullopt;
  place->keep();
  return Guard(entry_);
}

// The number of the open file is not given to another one meanwhile.
bool FileLock::in_place() const {
  const auto status = status_of(path_);
  return status && status->id == entry_->id;
}

FileLock::Guard::Guard(std::shared_ptr<LockEntry> entry) : entry_(std::move(entry)) {}
FileLock::Guard::Guard(Guard&& other) noexcept : entry_(std::move(other.entry_)) {}

FileLock::Guard& FileLock::Guard::operator=(Guard&& other) noexcept {
  Guard old(std::move(*this));
  entry_ = std::move(other.entry_);
  return *this;
}

FileLock::Guard::~Guard() { unlock(); }

void FileLock::Guard::unlock() {
  if (!entry_) return;
  entry_->held = false;
  try {
    entry_->kernel_lock.unlock();
  } catch (const interprocess_exception&) {
    // Only a network file system fails here, having lost the lock already or losing it with the lease.
  }
  Place::vacate(*entry_);
  entry_.reset();
}

bool FileLock::Guard::still_held() const {
  try {
    return entry_ && entry_->kernel_lock.try_lock();
  } catch (const interprocess_exception&) {
    return false;
  }
}

std::optional<int> lock_holder(const std::string& path) { return LockRegistry::instance().holder(path); }

bool try_lock_data(int descriptor) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (uninterrupted([&] { return ::fcntl(descriptor, F_SETLK, &lock); }) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  fail_lock("data file", errno);
}

}  // namespace partlog::os

// Exclusive locks between processes and threads on empty files that exist for nothing else.
//
// Built on Boost.Interprocess file_lock, that is POSIX record locks: they work over NFSv4, belong to the process, and are lost
// when the process closes *any* descriptor of the file. Hence nothing but this class opens a lock file, and a process opens each
// at most once: a registry keyed by device and inode (looked up through O_PATH descriptors, whose closing is harmless) hands the
// same lock to everyone in the process, with a mutex in front for the process's own threads. Close-on-exec. All functions are
// safe from several threads. A child made by fork(2) inherits no lock: until it calls exec it must leave alone what it inherited
// of this class (its destructors do no harm).
//
// The kernel's deadlock detection knows processes, not threads, and reports deadlocks that are none: EDEADLK is answered by
// trying again without blocking.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace partlog::os {

struct LockWait {
  std::optional<std::chrono::milliseconds> timeout;  // nullopt: without limit
  // Raised: a lock that is free is still given, else Error(interrupted). A wait in the kernel looks at it when a signal
  // interrupts it, so whoever raises it signals the waiting thread, again and again until the wait ends: one signal may come just
  // before the call that it should interrupt.
  const std::atomic<bool>* stop = nullptr;
  // Poll every 10 to 50 ms with jitter instead of waiting in the kernel, whose own waiting on a network filesystem backs off to
  // many seconds. A wait with a time-out or a stop flag polls too, from well below a millisecond up to 2 ms.
  bool poll = false;
};

class FileLock {
 public:
  // Opens the lock file; made if absent when `create`, else Error(not_found). Error(io) for what is no regular file. (A file
  // system without locks is Error(refused) when the first lock is asked for.)
  static FileLock open(const std::string& path, bool create = true);

  class Guard {
   public:
    Guard() = default;
    Guard(Guard&&) noexcept;
    Guard& operator=(Guard&&) noexcept;
    ~Guard();  // unlocks
    void unlock();
    bool owns() const { return entry_ != nullptr; }
    // Asks the kernel for the held lock once more without blocking; false means that it was lost (a lapsed lease).
    bool still_held() const;

   private:
    friend class FileLock;
    explicit Guard(std::shared_ptr<struct LockEntry> entry);
    std::shared_ptr<struct LockEntry> entry_;
  };

  // Waits for the lock. Error(busy) after the time-out, saying who holds it where that is known.
  Guard lock(const LockWait& wait = {}) const;
  // nullopt if someone else (another process, another thread) holds it.
  std::optional<Guard> try_lock() const;
  // The same, after the time-out.
  std::optional<Guard> try_lock(const LockWait& wait) const;
  // What lock() throws after this time-out.
  [[noreturn]] void fail_busy(std::chrono::milliseconds timeout) const;

  // Whether the path still names this very file: otherwise it was removed, or made anew, since it was opened.
  bool in_place() const;

  const std::string& path() const { return path_; }

 private:
  FileLock(std::shared_ptr<struct LockEntry> entry, std::string path) : entry_(std::move(entry)), path_(std::move(path)) {}
  std::shared_ptr<struct LockEntry> entry_;
  std::string path_;
};

// The process that holds a lock file now, without taking it and with read permission only (F_GETLK). nullopt: nobody, or no
// such file. Error(io) for what is no regular file. Process 0: held, but the kernel does not say by whom (another host). This
// process itself counts as a holder.
std::optional<int> lock_holder(const std::string& path);

// A POSIX write lock on a data file through its own descriptor, in addition to the lock file (network file systems: a host paused
// past its lease must fail to sync). Not blocking; false if another process holds it. The lock goes when *any* descriptor of that
// file in this process is closed.
bool try_lock_data(int descriptor);

}  // namespace partlog::os

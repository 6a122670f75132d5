// Waiting until something changes in directories: inotify on a local file system, a bounded sleep on a network one (inotify does
// not see other hosts). One thread at a time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace partlog::os {

class Watch {
 public:
  // Changes are file writes, creations, renames and removals directly in one of the directories. poll_interval bounds a wait on
  // network file systems. With inotify unavailable (limits) it polls every 50 ms.
  Watch(const std::vector<std::string>& directories, bool network, std::chrono::milliseconds poll_interval);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // Returns when something has changed since the last call returned, when `timeout` is over, when `wake_descriptor` (-1: none) is
  // readable, when `hangup_descriptor` (-1: none; the program's standard output) has lost its reader, or on a signal. Spurious
  // returns happen; callers look for themselves.
  void wait(std::chrono::milliseconds timeout, int wake_descriptor = -1, int hangup_descriptor = -1);

 private:
  int inotify_ = -1;
  std::chrono::milliseconds poll_interval_;
};

// The same for callers that wait on several things at once: one descriptor that is readable once something has changed in the
// directories, or a time has come. One thread at a time.
class WatchDescriptor {
 public:
  // On a network file system, and without inotify, only the time counts.
  WatchDescriptor(const std::vector<std::string>& directories, bool network);
  WatchDescriptor(const WatchDescriptor&) = delete;
  WatchDescriptor& operator=(const WatchDescriptor&) = delete;
  ~WatchDescriptor();

  int descriptor() const { return epoll_; }
  bool sees_changes() const { return inotify_ >= 0; }
  // Whether something has changed since the last call. The descriptor is readable for the next change only.
  bool take_changes();
  // The descriptor is readable when this time is over, until the next call of this function.
  void wake_after(std::chrono::microseconds time);

 private:
  int inotify_ = -1;
  int timer_ = -1;
  int epoll_ = -1;
};

}  // namespace partlog::os

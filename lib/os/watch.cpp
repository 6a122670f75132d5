#include "os/watch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "os/failure.h"

namespace partlog::os {

namespace {

constexpr std::chrono::milliseconds interval_without_inotify{50};
constexpr std::uint32_t changes =
    IN_MODIFY | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

// -1 if one of the directories cannot be watched.
int watch_all(const std::vector<std::string>& directories) {
  int inotify = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (inotify < 0) return -1;
  for (const auto& directory : directories) {
    if (::inotify_add_watch(inotify, directory.c_str(), changes) >= 0) continue;
    ::close(inotify);
    return -1;
  }
  return inotify;
}

// Whether there was something.
bool drain(int inotify) {
  alignas(inotify_event) std::array<char, 16384> events;
  auto got = ::read(inotify, events.data(), events.size());
  const bool some = got > 0;
  while (got > static_cast<ssize_t>(events.size() / 2)) got = ::read(inotify, events.data(), events.size());
  return some;
}

}  // namespace

Watch::Watch(const std::vector<std::string>& directories, bool network, std::chrono::milliseconds poll_interval)
    : poll_interval_(poll_interval) {
  if (network) return;
  inotify_ = watch_all(directories);
  if (inotify_ < 0) poll_interval_ = interval_without_inotify;
}

Watch::~Watch() {
  if (inotify_ >= 0) ::close(inotify_);
}

void Watch::wait(std::chrono::milliseconds timeout, int wake_descriptor, int hangup_descriptor) {
  if (inotify_ < 0) timeout = std::min(timeout, poll_interval_);
  // poll(2) passes over negative descriptors, and reports POLLERR (the reader of a pipe has gone) and POLLHUP unasked.
  std::array<pollfd, 3> descriptors = {{{inotify_, POLLIN, 0}, {wake_descriptor, POLLIN, 0}, {hangup_descriptor, 0, 0}}};
  auto limit = std::clamp<std::chrono::milliseconds::rep>(timeout.count(), 0, INT_MAX);
  ::poll(descriptors.data(), descriptors.size(), static_cast<int>(limit));
  // Emptied before the caller looks: what happens from here on ends the next wait.
  if (inotify_ >= 0) drain(inotify_);
}

WatchDescriptor::WatchDescriptor(const std::vector<std::string>& directories, bool network) {
  if (!network) inotify_ = watch_all(directories);
  timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  bool works = timer_ >= 0 && epoll_ >= 0;
  for (const int fd : {inotify_, timer_}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (works && fd >= 0) works = ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
  }
  if (works) return;
  const int error = errno;
  for (const int fd : {inotify_, timer_, epoll_}) {
    if (fd >= 0) ::close(fd);
  }
  fail("make a descriptor to wait on", error);
}

WatchDescriptor::~WatchDescriptor() {
  for (const int fd : {epoll_, timer_, inotify_}) {
    if (fd >= 0) ::close(fd);
  }
}

bool WatchDescriptor::take_changes() { return inotify_ >= 0 && drain(inotify_); }

void WatchDescriptor::wake_after(std::chrono::microseconds time) {
  const auto us = std::max<std::chrono::microseconds::rep>(time.count(), 1);  // 0 would stop the timer
  itimerspec at{};
  at.it_value = {us / 1'000'000, us % 1'000'000 * 1000};
  ::timerfd_settime(timer_, 0, &at, nullptr);
}

}  // namespace partlog::os

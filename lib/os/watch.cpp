#include "os/watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

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

void drain(int inotify) {
  alignas(inotify_event) std::array<char, 16384> events;
  while (::read(inotify, events.data(), events.size()) > static_cast<ssize_t>(events.size() / 2)) {
  }
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

}  // namespace partlog::os

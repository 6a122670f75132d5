#include "os/patience.h"

#include <time.h>

#include <cerrno>

#include "os/filesystem.h"

namespace partlog::os {

namespace {

constexpr std::chrono::seconds longest{10};
constexpr timespec pause{0, 100'000'000};

}  // namespace

bool Patience::waits() {
  const int error = errno;
  if (error != EIO && error != ETIMEDOUT) return false;
  const auto now = std::chrono::steady_clock::now();
  bool is_worth_it = true;
  if (!since_) {
    since_ = now;
    is_worth_it = is_on_network(path_);
  }
  is_worth_it = is_worth_it && now - *since_ < longest && ::nanosleep(&pause, nullptr) == 0;
  errno = error;
  return is_worth_it;
}

}  // namespace partlog::os

#include "os/clock.h"

#include <cstdlib>
#include <ctime>
#include <utility>

#include "os/directory.h"
#include "os/failure.h"

namespace partlog::os {

namespace {

std::int64_t nanoseconds(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

Clock*& in_force() {
  static Clock* clock = new Clock;  // never destroyed
  return clock;
}

std::string read_boot_id() {
  if (const char* given = std::getenv("PARTLOG_BOOT_ID"); given != nullptr && *given != '\0') return given;
  const std::string path = "/proc/sys/kernel/random/boot_id";
  auto id = read_file(path);
  if (!id) fail("open " + path, ENOENT);
  id->erase(id->find_last_not_of('\n') + 1);
  return *std::move(id);
}

}  // namespace

Timestamp Clock::now() const { return {nanoseconds(CLOCK_REALTIME) / 1'000'000}; }
std::int64_t Clock::monotonic_us() const { return nanoseconds(CLOCK_MONOTONIC) / 1'000; }

Clock& clock() { return *in_force(); }

ScopedClock::ScopedClock(Clock& replacement) : previous_(std::exchange(in_force(), &replacement)) {}
ScopedClock::~ScopedClock() { in_force() = previous_; }

const std::string& boot_id() {
  static const std::string& id = *new std::string(read_boot_id());
  return id;
}

}  // namespace partlog::os

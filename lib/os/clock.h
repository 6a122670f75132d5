// Time, injected: tests install their own.
#pragma once

#include <cstdint>
#include <string>

#include "partlog/types.h"

namespace partlog::os {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() const;              // wall clock
  virtual std::int64_t monotonic_us() const;  // for measuring and deadlines
};

Clock& clock();

class ScopedClock {
 public:
  explicit ScopedClock(Clock& replacement);
  ~ScopedClock();
  ScopedClock(const ScopedClock&) = delete;
  ScopedClock& operator=(const ScopedClock&) = delete;

 private:
  Clock* previous_;
};

// Changes with every start of the host (/proc/sys/kernel/random/boot_id); read once per process. PARTLOG_BOOT_ID in the
// environment overrides it (tests).
const std::string& boot_id();

}  // namespace partlog::os

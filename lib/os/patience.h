// A network mount that gives up ("soft") fails calls for a moment after a pause of this host, and works again soon: what only
// reads is tried again for ten seconds, unless a signal comes. Private to os/.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "os/failure.h"

namespace partlog::os {

class Patience {
 public:
  // `path`: what the call is about; kept as a reference.
  explicit Patience(const std::string& path) : path_(path) {}

  // After a call that failed: waits, if it is worth another try. errno stays as it is.
  bool waits();

 private:
  const std::string& path_;
  std::optional<std::chrono::steady_clock::time_point> since_;
};

// Repeats a call that a signal interrupted, or that failed as above.
template <class Call>
auto patiently(const std::string& path, Call call) {
  for (Patience patience(path);;) {
    auto result = uninterrupted(call);
    if (result != -1 || !patience.waits()) return result;
  }
}

}  // namespace partlog::os

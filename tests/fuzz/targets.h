// Everything that takes bytes from outside, as functions of bytes: for the fuzzer, which invents some, and for the unit tests,
// which try those that it found worth keeping (tests/fuzz/corpus). A fault is a crash, a report of a sanitizer, or an exception
// other than the documented ones.
#pragma once

#include <span>

namespace partlog::fuzz {

struct Target {
  const char* name;
  void (*run)(std::span<const char> bytes);
};

std::span<const Target> targets();

}  // namespace partlog::fuzz

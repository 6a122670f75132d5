// What the program's exit status says, and the one place where errors become statuses.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "partlog/error.h"

namespace partlog::cmd {

inline constexpr int status_done = 0;
inline constexpr int status_failed = 1;
inline constexpr int status_usage = 2;
inline constexpr int status_empty = 3;
inline constexpr int status_out_of_range = 4;
inline constexpr int status_damaged = 5;
inline constexpr int status_busy = 6;
inline constexpr int status_not_enough_replicas = 7;
inline constexpr int status_check_failed = 8;

int exit_status(ErrorCode code);

// The command line itself is wrong: nothing has been done.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Collects what became of several items: the status is that of the first failure, but damage wins over all others.
class Outcome {
 public:
  // Prints the message, with `context` in front where it says more than the message does.
  void fail(const Error& error, std::string_view context = {});
  // The same, but what several items in a row fail of is printed once.
  void fail_once(const Error& error, std::string_view context = {});
  void fail(int status);
  int status() const { return status_; }

 private:
  int status_ = status_done;
  std::string last_;  // that fail_once() printed
};

}  // namespace partlog::cmd

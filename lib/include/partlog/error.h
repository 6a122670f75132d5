// Errors of the library.
//
// Everything that goes wrong is reported as a partlog::Error thrown where the fact is known. What is expected to happen (end of
// the log, no record at that time) is a return value instead. An Error is immutable and safe to copy between threads.
#pragma once

#include <stdexcept>
#include <string>

#include "partlog/export.h"

namespace partlog {

// What the caller can do about an error; each has one exit status in the program.
enum class ErrorCode {
  invalid_argument,     // the request itself makes no sense (name, number, combination)
  not_found,            // no such store, topic or file
  already_exists,       // the thing to be made is there already
  io,                   // the system refused or failed; the message carries its reason
  refused,              // a rule of the store forbids it (record too large, newer format version, no working locks)
  offset_out_of_range,  // the position is no longer, or not yet, in the log
  damaged,              // stored bytes are not what was written
  busy,                 // a lock or a live member stands in the way
  not_enough_replicas,  // fewer replicas in sync than asked for
  fenced,               // ownership was lost to someone else
  interrupted,          // the caller's stop flag was raised while waiting
};

// The message is one line without a trailing full stop: operation, path, position or offset, the system's reason, and what to do
// where that is not plain.
class PARTLOG_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, int system_error = 0)
      : std::runtime_error(message), code_(code), system_error_(system_error) {}

  ErrorCode code() const noexcept { return code_; }

  // errno of the failed call, 0 if the system was not involved.
  int system_error() const noexcept { return system_error_; }

 private:
  ErrorCode code_;
  int system_error_;
};

}  // namespace partlog

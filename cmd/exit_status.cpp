#include "exit_status.h"

#include <utility>

#include "messages.h"
#include "signals.h"

namespace partlog::cmd {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return status_usage;
    case ErrorCode::not_found:
    case ErrorCode::already_exists:
    case ErrorCode::io:
    case ErrorCode::refused:
      return status_failed;
    case ErrorCode::offset_out_of_range:
      return status_out_of_range;
    case ErrorCode::damaged:
      return status_damaged;
    case ErrorCode::busy:
      return status_busy;
    case ErrorCode::not_enough_replicas:
    case ErrorCode::fenced:
      return status_not_enough_replicas;
    case ErrorCode::interrupted:
      return signal_status();
  }
  return status_failed;
}

void Outcome::fail(const Error& error, std::string_view context) {
  complain(context.empty() ? error.what() : std::string(context) + ": " + error.what());
  fail(exit_status(error.code()));
}

void Outcome::fail_once(const Error& error, std::string_view context) {
  if (std::exchange(last_, error.what()) == error.what()) return fail(exit_status(error.code()));
  fail(error, context);
}

void Outcome::fail(int status) {
  if (status_ == status_done || status == status_damaged) status_ = status;
}

}  // namespace partlog::cmd

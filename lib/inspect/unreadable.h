// Errors that say something about one file, and nothing about the others.
#pragma once

#include <cerrno>
#include <optional>

#include "partlog/error.h"

namespace partlog::inspect {

// Its contents are wrong, or it cannot be opened or read; not that this process has no descriptor or memory left.
inline bool is_unreadable(const Error& error) {
  const int reason = error.system_error();
  return error.code() == ErrorCode::damaged ||
         (error.code() == ErrorCode::io && reason != EMFILE && reason != ENFILE && reason != ENOMEM);
}

// What `look` gives; nullopt for what is unreadable.
template <class Look>
auto unless_unreadable(Look look) -> std::optional<decltype(look())> {
  try {
    return look();
  } catch (const Error& error) {
    if (!is_unreadable(error)) throw;
    return std::nullopt;
  }
}

}  // namespace partlog::inspect

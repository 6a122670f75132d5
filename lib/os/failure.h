// How os/ reports a failed system call. Private to os/.
#pragma once

#include <cerrno>
#include <string>

#include "partlog/error.h"

namespace partlog::os {

// Throws Error("<what>: <the system's reason>"): not_found for ENOENT, already_exists for EEXIST, io for everything else.
// `what` is operation, path and, where there is one, position.
[[noreturn]] void fail(const std::string& what, int error);

std::string reason(int error);

// There is nothing at that path.
inline bool is_absent(int error) { return error == ENOENT || error == ENOTDIR; }

// Repeats a call that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  for (;;) {
    auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace partlog::os

// Invariants of our own, checked in release builds too. Bad bytes on disk and bad arguments are Errors, never checks.
#pragma once

namespace partlog {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace partlog

#define PARTLOG_CHECK(condition) ((condition) ? static_cast<void>(0) : ::partlog::check_failed(#condition, __FILE__, __LINE__))

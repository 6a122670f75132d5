// Times and durations as the command line writes them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "partlog/types.h"

namespace partlog::cmd {

// `N` with ms, s, m, h or d, combined from the largest to the smallest (`1h30m`), or a lone 0. nullopt: not a duration.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
// The value of an option. UsageError naming it for what is no duration, or longer than 100 years.
std::chrono::milliseconds parse_duration(std::string_view text, std::string_view option);

struct TimeZone {
  bool local = false;  // what a time without zone means: local time, else UTC
};

// ISO 8601 dates and times (`2024-05-01`, `2024-05-01T10:30:00.5+02:00`), 10 (seconds) or 13 (milliseconds) digits, `@SECONDS`
// with an optional fraction, and durations back from `now` (`-1h30m`, `P1DT2H`). UsageError naming `option` for all else.
Timestamp parse_time(std::string_view text, std::string_view option, Timestamp now, TimeZone zone = {});
// As parse_time(), but a bare number of any length is milliseconds (kcat's `s@` and `e@`).
Timestamp parse_time_or_ms(std::string_view text, std::string_view option, Timestamp now, TimeZone zone = {});

// ISO 8601 in UTC with milliseconds: `2024-05-01T08:30:00.500Z`.
std::string format_time(Timestamp time);

Timestamp now();

}  // namespace partlog::cmd

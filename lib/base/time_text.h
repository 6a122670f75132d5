// Timestamps as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "partlog/types.h"

namespace partlog {

// ISO 8601 UTC with milliseconds: 2026-01-31T12:00:00.000Z.
std::string iso_time(Timestamp time);

// Exactly such a text, of the years 0000 to 9999; nullopt for anything else.
std::optional<Timestamp> parse_iso_time(std::string_view text);

}  // namespace partlog

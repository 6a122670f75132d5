// Timestamps as text.
#pragma once

#include <string>

#include "partlog/types.h"

namespace partlog {

// ISO 8601 UTC with milliseconds: 2026-01-31T12:00:00.000Z.
std::string iso_time(Timestamp time);

}  // namespace partlog

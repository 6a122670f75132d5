// The version of the library that is running.
#pragma once

#include "partlog/export.h"

namespace partlog {

PARTLOG_EXPORT const char* version();  // "0.1.0"

}  // namespace partlog

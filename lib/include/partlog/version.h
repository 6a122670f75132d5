// The version of the library that is running.
#pragma once

namespace partlog {

const char* version();  // "0.1.0"

}  // namespace partlog

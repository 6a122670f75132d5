// What removes stored data asks first.
#pragma once

#include <string>

namespace partlog::cmd {

// Asks on the terminal; UsageError where there is none, or where the answer is not yes.
void require_consent(const std::string& question);

}  // namespace partlog::cmd

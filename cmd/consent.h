// What removes stored data asks first.
#pragma once

#include <string>
#include <string_view>

namespace partlog::cmd {

// Asks on the terminal; UsageError where there is none, or where the answer is not yes.
// `doing` is the word for it: "deleting".
void require_consent(const std::string& question, std::string_view doing = "deleting");

}  // namespace partlog::cmd

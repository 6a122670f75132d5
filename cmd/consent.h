// What removes stored data asks first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace partlog::cmd {

// Asks on the terminal; UsageError where there is none, or where the answer is not yes.
// `doing` is the word for it: "deleting".
void require_consent(const std::string& question, std::string_view doing = "deleting");

// Whether these topics or groups (`kind`) are to be deleted with what is in them. Names them, unless there are very many.
std::string deletion_question(const std::vector<std::string>& names, std::string_view kind, std::string_view content);

}  // namespace partlog::cmd

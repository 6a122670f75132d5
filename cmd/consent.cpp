#include "consent.h"

#include <unistd.h>

#include <algorithm>

#include "exit_status.h"
#include "text.h"

namespace partlog::cmd {

void require_consent(const std::string& question, std::string_view doing) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) {
    throw UsageError(std::string(doing) + " needs --yes; nothing was done");
  }
  std::string prompt = "partlog: ";
  append_visible(prompt, question);
  prompt += " [y/N] ";
  char answer[16] = {};
  if (::write(STDERR_FILENO, prompt.data(), prompt.size()) < 0 || ::read(STDIN_FILENO, answer, sizeof answer) <= 0 ||
      (answer[0] != 'y' && answer[0] != 'Y')) {
    throw UsageError("nothing was done");
  }
}

std::string deletion_question(const std::vector<std::string>& names, std::string_view kind, std::string_view content) {
  constexpr std::size_t most = 10;
  const bool is_one = names.size() == 1;
  std::string text = "delete " + (is_one ? std::string(kind) : "the " + std::string(kind) + 's') + ' ';
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text + " with all " + (is_one ? "its " : "their ") + std::string(content) + '?';
}

}  // namespace partlog::cmd

#include "consent.h"

#include <unistd.h>

#include "exit_status.h"

namespace partlog::cmd {

void require_consent(const std::string& question, std::string_view doing) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) {
    throw UsageError(std::string(doing) + " needs --yes; nothing was done");
  }
  std::string prompt = "partlog: " + question + " [y/N] ";
  char answer[16] = {};
  if (::write(STDERR_FILENO, prompt.data(), prompt.size()) < 0 || ::read(STDIN_FILENO, answer, sizeof answer) <= 0 ||
      (answer[0] != 'y' && answer[0] != 'Y')) {
    throw UsageError("nothing was done");
  }
}

}  // namespace partlog::cmd

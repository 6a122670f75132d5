#include "messages.h"

#include <unistd.h>

#include <string>

#include "text.h"

namespace partlog::cmd {
namespace {

bool quiet_ = false;
bool verbose_ = false;

}  // namespace

void set_verbosity(bool quiet, bool verbose) {
  quiet_ = quiet;
  verbose_ = verbose;
}

void complain(std::string_view line) {
  std::string text = "partlog: ";
  append_visible(text, line);
  text += '\n';
  // Nowhere is left to report a failure of stderr to.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void notice(std::string_view line) {
  if (!quiet_) complain(line);
}

void detail(std::string_view line) {
  if (verbose_ && !quiet_) complain(line);
}

}  // namespace partlog::cmd

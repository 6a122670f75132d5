// What the program says to people: one line each on stderr, `partlog: ` first, control characters made visible.
#pragma once

#include <string_view>

namespace partlog::cmd {

void set_verbosity(bool quiet, bool verbose);

void complain(std::string_view line);  // errors: always
void notice(std::string_view line);    // not with -q
void detail(std::string_view line);    // only with -v

}  // namespace partlog::cmd

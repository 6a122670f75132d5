#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace partlog {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "partlog: internal error: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace partlog

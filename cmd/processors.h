// How many processors this process may run on.
#pragma once

#include <sched.h>

namespace partlog::cmd {

inline int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace partlog::cmd

#include "os/threads.h"

#include <sched.h>
#include <signal.h>

#include <utility>

namespace partlog::os {

int processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::thread start_thread(std::function<void()> work) {
  struct Blocked {
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const Blocked blocked;  // inherited
  return std::thread(std::move(work));
}

}  // namespace partlog::os

#include "os/host.h"

#include <unistd.h>

#include <climits>

#include "os/directory.h"
#include "os/failure.h"

namespace partlog::os {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) fail("ask for the name of this host", errno);
  return name;
}

int process_id() { return ::getpid(); }

// "<pid> (<name>) <state> ...", where the name may have any characters (proc_pid_stat(5)).
bool is_stopped(int process) {
  try {
    const auto text = read_file("/proc/" + std::to_string(process) + "/stat");
    const auto end_of_name = text ? text->rfind(") ") : std::string::npos;
    return end_of_name != std::string::npos && text->compare(end_of_name + 2, 2, "T ") == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace partlog::os

#include "os/host.h"

#include <unistd.h>

#include <climits>

#include "os/failure.h"

namespace partlog::os {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) fail("ask for the name of this host", errno);
  return name;
}

int process_id() { return ::getpid(); }

}  // namespace partlog::os

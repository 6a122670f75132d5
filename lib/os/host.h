// This host and this process, as others see them, and how other processes are.
#pragma once

#include <string>

namespace partlog::os {

std::string host_name();
int process_id();

// Whether a process of this host is stopped by job control (SIGSTOP, Ctrl-Z), not by a debugger. False where there is no telling.
bool is_stopped(int process);

}  // namespace partlog::os

// This host and this process, as others see them.
#pragma once

#include <string>

namespace partlog::os {

std::string host_name();
int process_id();

}  // namespace partlog::os

// Threads of the library's own.
#pragma once

#include <functional>
#include <thread>

namespace partlog::os {

int processors();  // that this process may run on

// A thread that no signal is delivered to. std::system_error if there can be none.
std::thread start_thread(std::function<void()> work);

}  // namespace partlog::os

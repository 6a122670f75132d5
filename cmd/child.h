// A command that works on what it reads from its standard input, and does not outlive us.
#pragma once

#include <string>
#include <vector>

namespace partlog::cmd {

// Runs `sh -c command`, with these `NAME=value` beside our environment and the whole of a regular file as standard input through
// a pipe; standard output and error are ours. Returns when it has ended, with its status as a shell shows it: 128 + n for an end
// by signal n. It need not read everything. Signals do not end the wait. If this process dies, so do the command and all that it
// started and has not left behind before. Error(io) if no process could be made.
int run_child(const std::string& command, const std::vector<std::string>& variables, int input);

}  // namespace partlog::cmd

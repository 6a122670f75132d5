// Commands that work on what they read from their standard input, and do not outlive us.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "descriptor.h"

namespace partlog::cmd {

// Runs one command after another. A second process, which waits for nothing but our death, then kills the command in hand and all
// that it has started and not left behind before.
class ChildRunner {
 public:
  // Error(io) if no process could be made, here and below.
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  void call_while_waiting(std::function<void()> waiting) { waiting_ = std::move(waiting); }
  // Returns early when a signal asks us to end.
  void pause(std::chrono::milliseconds time) const;

  // Runs `sh -c command`, with these `NAME=value` beside our environment and the whole of a regular file as standard input
  // through a pipe; standard output and error are ours. Returns when it has ended, with its status as a shell shows it: 128 + n
  // for an end by signal n. It need not read everything. Signals do not end the wait, in which `waiting` is called every so
  // often.
  int run(const std::string& command, const std::vector<std::string>& variables, int input);

 private:
  void start_guard();
  bool guard_has_died();
  int run_once(const char* command, char** environment, int input);
  void feed_until_end(Descriptor pipe, int file, int child) const;

  Descriptor to_guard_;
  pid_t guard_ = -1;
  std::function<void()> waiting_;
  rlimit files_;  // that the commands may open: this process may raise its own limit later
};

}  // namespace partlog::cmd

// SIGINT, SIGTERM and SIGHUP ask a command to end after the record in hand; a second one ends it at once. Process-wide state.
#pragma once

#include <signal.h>

#include <atomic>

namespace partlog::cmd {

// Every command: a broken pipe ends the program silently, SIGXFSZ becomes EFBIG, and descriptors 0 to 2 that are closed are kept
// from being reused for files (using them still fails).
void prepare_process();

// Commands that end in good order: raises stop_requested() instead of dying. Signals that were ignored stay ignored.
void catch_stop_signals();

const std::atomic<bool>& stop_requested();
// Readable once a signal came; -1 before catch_stop_signals().
int stop_descriptor();
// 128 + the signal that came.
int signal_status();

// In this thread, and those that it starts, until the end of the scope.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

// Within such a scope: in this thread they come again, as they did `before`, until the end of this one.
class SignalsAllowed {
 public:
  explicit SignalsAllowed(const sigset_t& before);
  ~SignalsAllowed();
  SignalsAllowed(const SignalsAllowed&) = delete;
  SignalsAllowed& operator=(const SignalsAllowed&) = delete;

 private:
  sigset_t blocked_;
};

// For commands that have something left to do then: writing to a broken pipe no longer ends the program, but is BrokenPipe.
void survive_broken_pipes();

// Thrown where the reader of a pipe or socket has gone away; the program ends by die_of_broken_pipe().
struct BrokenPipe {};
[[noreturn]] void die_of_broken_pipe();

}  // namespace partlog::cmd

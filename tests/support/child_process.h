// A second process, forked from the test, that waits on the test and lets it wait through two pipes: no sleeps.
//
// Fork children before the test itself opens what both are to use: a lock that the test has open belongs to the test.
#pragma once

#include <sys/types.h>

#include <functional>

namespace partlog::test {

// One end of the two pipes.
class Line {
 public:
  Line(int in, int out) : in_(in), out_(out) {}
  void send(char token = '.') const;
  char receive() const;  // blocks; 0 once the other process is gone
  void close();

 private:
  int in_;
  int out_;
};

class ChildProcess {
 public:
  // What `body` returns is the exit status; 99 if it throws.
  explicit ChildProcess(const std::function<int(Line&)>& body);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills it if it is still there

  pid_t pid() const { return pid_; }
  Line& line() { return line_; }
  void kill(int signal);
  // Waits until it is stopped; false if it ends instead.
  bool wait_stopped() const;
  // The exit status, or minus the signal that ended it.
  int wait();
  // As wait(), sending the signal again and again until the process has ended.
  int wait_signalling(int signal);

 private:
  Line line_{-1, -1};
  pid_t pid_ = -1;
  int status_ = 0;
};

}  // namespace partlog::test

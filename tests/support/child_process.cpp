#include "support/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <system_error>

namespace partlog::test {

namespace {

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return ends;
}

int run(const std::function<int(Line&)>& body, Line& line) {
  try {
    return body(line);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child process: %s\n", error.what());
    return 99;
  }
}

}  // namespace

void Line::send(char token) const {
  if (::write(out_, &token, 1) != 1) throw std::system_error(errno, std::generic_category(), "write to the other process");
}

char Line::receive() const {
  char token = 0;
  ssize_t got;
  do got = ::read(in_, &token, 1);
  while (got < 0 && errno == EINTR);
  return got == 1 ? token : '\0';
}

void Line::close() {
  ::close(in_);
  ::close(out_);
}

ChildProcess::ChildProcess(const std::function<int(Line&)>& body) {
  auto to_child = make_pipe();
  auto to_parent = make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(to_child[1]);
    ::close(to_parent[0]);
    Line line(to_child[0], to_parent[1]);
    ::_exit(run(body, line));
  }
  ::close(to_child[0]);
  ::close(to_parent[1]);
  line_ = Line(to_parent[0], to_child[1]);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill(SIGKILL);
    wait();
  }
  line_.close();
}

void ChildProcess::kill(int signal) { ::kill(pid_, signal); }

bool ChildProcess::wait_stopped() const {
  siginfo_t changed{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &changed, WSTOPPED | WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  return changed.si_code == CLD_STOPPED;
}

int ChildProcess::wait_signalling(int signal) {
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) kill(signal);
  return wait();
}

int ChildProcess::wait() {
  if (pid_ <= 0) return status_;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  status_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

}  // namespace partlog::test

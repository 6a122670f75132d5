#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "output.h"
#include "partlog/error.h"
#include "text.h"

extern char** environ;

namespace partlog::cmd {
namespace {

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::io, what + ": " + system_message(errno), errno); }

struct Pipe {
  Descriptor out, in;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("making a pipe for the command");
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
};

// Until the end of the scope.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

class BrokenPipeIgnored {
 public:
  BrokenPipeIgnored() : before_(::signal(SIGPIPE, SIG_IGN)) {}
  ~BrokenPipeIgnored() { ::signal(SIGPIPE, before_); }
  BrokenPipeIgnored(const BrokenPipeIgnored&) = delete;
  BrokenPipeIgnored& operator=(const BrokenPipeIgnored&) = delete;

 private:
  void (*before_)(int);
};

// The functions from here to guard() run in forked processes: nothing there may allocate.

// Calls `visit` for each child of a process.
template <class Visit>
void for_each_child(pid_t parent, Visit visit) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/%d/task/%d/children", parent, parent);
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, 4096> text;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  for (const char* at = text.data(); at < text.data() + size;) {
    pid_t child = 0;
    const auto [end, error] = std::from_chars(at, text.data() + size, child);
    if (error != std::errc()) break;
    visit(child);
    at = end + 1;
  }
}

// What is stopped makes no more children, nor does it lose them to another parent.
void kill_tree(pid_t process) {
  ::kill(process, SIGSTOP);
  for_each_child(process, kill_tree);
  ::kill(process, SIGKILL);
}

// Is told the process of the command in hand, by that itself, and 0 when it has ended. The end of the pipe is our death: nobody
// else has it open.
[[noreturn]] void guard(int pipe) {
  ::dup2(pipe, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  pid_t command = 0;
  pid_t told;
  while (::read(STDIN_FILENO, &told, sizeof told) == sizeof told) command = told;
  if (command != 0) kill_tree(command);
  ::_exit(0);
}

[[noreturn]] void become_command(const char* command, char** environment, const sigset_t& mask, int input, int to_guard) {
  const pid_t self = ::getpid();
  if (::write(to_guard, &self, sizeof self) != sizeof self) ::_exit(127);
  ::dup2(input, STDIN_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const char* const arguments[] = {"sh", "-c", command, nullptr};
  ::execve("/bin/sh", const_cast<char* const*>(arguments), environment);
  ::_exit(127);
}

// As much as the pipe takes now. False: no more, all was sent or the reader has gone.
bool feed(int pipe, int file) {
  const ssize_t sent = ::sendfile(pipe, file, nullptr, 1 << 20);
  if (sent > 0) return true;
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (sent < 0 && errno != EPIPE) fail("writing to the command");
  return false;
}

void feed_until_end(Descriptor pipe, int file, int child) {
  const BrokenPipeIgnored ignored;
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  for (;;) {
    pollfd ready[] = {{child, POLLIN, 0}, {pipe.get(), POLLOUT, 0}};
    if (::poll(ready, 2, -1) < 0) {
      if (errno == EINTR) continue;
      fail("waiting for the command");
    }
    if (ready[0].revents != 0) return;
    if (!feed(pipe.get(), file)) pipe.close();
  }
}

// Our environment with the variables in it.
std::vector<char*> environment_with(const std::vector<std::string>& variables) {
  std::vector<char*> all;
  all.reserve(variables.size() + 1);
  for (const auto& variable : variables) all.push_back(const_cast<char*>(variable.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto name = text.substr(0, text.find('=') + 1);
    if (std::none_of(variables.begin(), variables.end(), [&](const auto& v) { return v.starts_with(name); })) {
      all.push_back(*variable);
    }
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace

ChildRunner::ChildRunner() {
  Pipe pipe;
  const SignalsBlocked blocked;
  guard_ = ::fork();
  if (guard_ == 0) guard(pipe.out.get());
  if (guard_ < 0) fail("starting a process");
  to_guard_ = std::move(pipe.in);
}

ChildRunner::~ChildRunner() {
  to_guard_.close();
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) continue;
}

int ChildRunner::run(const std::string& command, const std::vector<std::string>& variables, int input) {
  if (::lseek(input, 0, SEEK_SET) != 0) fail("reading the batch for the command");
  auto environment = environment_with(variables);
  Pipe pipe;
  enlarge_pipe(pipe.in.get());
  pid_t child;
  {
    const SignalsBlocked blocked;
    child = ::fork();
    if (child == 0) {
      become_command(command.c_str(), environment.data(), blocked.before(), pipe.out.get(), to_guard_.get());
    }
  }
  if (child < 0) fail("starting the command");
  pipe.out.close();
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (ended.get() < 0) fail("waiting for the command");
  feed_until_end(std::move(pipe.in), input, ended.get());
  // Told before the number may become another process's.
  const pid_t none = 0;
  const BrokenPipeIgnored ignored;
  [[maybe_unused]] const ssize_t told = ::write(to_guard_.get(), &none, sizeof none);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace partlog::cmd

#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "output.h"
#include "partlog/error.h"
#include "text.h"

extern char** environ;

namespace partlog::cmd {
namespace {

// Tells the guard that we died.
constexpr int orphaned = SIGUSR1;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::io, what + ": " + system_message(errno), errno); }

class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

struct Pipe {
  Descriptor out, in;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("making a pipe for the command");
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
};

// All signals blocked, or none delivered to a reader that went away, until the end of the scope.
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

// The functions up to guard() run in a forked process: nothing there may allocate.

[[noreturn]] void become_command(const char* command, char** environment, const sigset_t& mask, pid_t guard) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(127);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const char* const arguments[] = {"sh", "-c", command, nullptr};
  ::execve("/bin/sh", const_cast<char* const*>(arguments), environment);
  ::_exit(127);
}

// Orphans come to the guard, which is their reaper, so killing its children until there are none gets hold of all.
void kill_descendants() {
  do {
    char text[4096];
    const int file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    const ssize_t size = file >= 0 ? ::read(file, text, sizeof text) : 0;
    if (file >= 0) ::close(file);
    for (const char* at = text; at < text + size;) {
      pid_t child = 0;
      const auto [end, error] = std::from_chars(at, text + size, child);
      if (error == std::errc() && child > 0) ::kill(child, SIGKILL);
      at = end + 1;
    }
  } while (::waitpid(-1, nullptr, 0) > 0);
}

// Stands between us and the command: waits for the command and tells its wait status, or kills it once we are dead.
[[noreturn]] void guard(pid_t parent, int input, int report, const char* command, char** environment, const sigset_t& mask) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, orphaned);
  if (::getppid() != parent) ::_exit(127);
  constexpr int own_report = 3;
  ::dup2(input, STDIN_FILENO);
  if (report != own_report) ::dup3(report, own_report, O_CLOEXEC);
  ::close_range(own_report + 1, ~0U, 0);
  const pid_t child = ::fork();
  if (child == 0) become_command(command, environment, mask, ::getppid());
  if (child < 0) ::_exit(127);
  ::close(STDIN_FILENO);
  sigset_t expected;
  sigemptyset(&expected);
  sigaddset(&expected, SIGCHLD);
  sigaddset(&expected, orphaned);
  for (;;) {
    int status = 0;
    pid_t ended;
    while ((ended = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended != child) continue;
      [[maybe_unused]] const ssize_t written = ::write(own_report, &status, sizeof status);
      ::_exit(0);
    }
    if (::sigwaitinfo(&expected, nullptr) == orphaned) {
      kill_descendants();
      ::_exit(0);
    }
  }
}

// As much as the pipe takes now. False: no more, all was sent or the reader has gone.
bool feed(int pipe, int file) {
  const ssize_t sent = ::sendfile(pipe, file, nullptr, 1 << 20);
  if (sent > 0) return true;
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (sent < 0 && errno != EPIPE) fail("writing to the command");
  return false;
}

// The wait status that the guard tells.
int wait_for(Descriptor feeding, int file, int report) {
  const BrokenPipeIgnored ignored;
  for (;;) {
    pollfd ready[] = {{report, POLLIN, 0}, {feeding.get(), POLLOUT, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) fail("waiting for the command");
    if (ready[1].revents != 0 && !feed(feeding.get(), file)) feeding.close();
    if (ready[0].revents == 0) continue;
    int status = SIGKILL;  // of a guard that was killed itself
    while (::read(report, &status, sizeof status) < 0 && errno == EINTR) continue;
    return status;
  }
}

}  // namespace

int run_child(const std::string& command, const std::vector<std::string>& variables, int input) {
  if (::lseek(input, 0, SEEK_SET) != 0) fail("reading the batch for the command");
  std::vector<char*> environment;
  for (const auto& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto name = text.substr(0, text.find('=') + 1);
    const bool replaced = std::any_of(variables.begin(), variables.end(), [&](const auto& v) { return v.starts_with(name); });
    if (!replaced) environment.push_back(*variable);
  }
  environment.push_back(nullptr);

  Pipe feeding;
  Pipe report;
  enlarge_pipe(feeding.in.get());
  pid_t child;
  {
    const SignalsBlocked blocked;
    const pid_t parent = ::getpid();
    child = ::fork();
    if (child == 0) guard(parent, feeding.out.get(), report.in.get(), command.c_str(), environment.data(), blocked.before());
  }
  if (child < 0) fail("starting the command");
  feeding.out.close();
  report.in.close();
  ::fcntl(feeding.in.get(), F_SETFL, O_NONBLOCK);
  const int status = wait_for(std::move(feeding.in), input, report.out.get());
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace partlog::cmd

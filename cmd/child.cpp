#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "output.h"
#include "partlog/error.h"
#include "signals.h"
#include "text.h"

extern char** environ;

namespace partlog::cmd {
namespace {

constexpr int not_guarded = 127;
constexpr std::chrono::milliseconds waiting_every{100};

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

class BrokenPipeIgnored {
 public:
  BrokenPipeIgnored() : before_(::signal(SIGPIPE, SIG_IGN)) {}
  ~BrokenPipeIgnored() { ::signal(SIGPIPE, before_); }
  BrokenPipeIgnored(const BrokenPipeIgnored&) = delete;
  BrokenPipeIgnored& operator=(const BrokenPipeIgnored&) = delete;

 private:
  void (*before_)(int);
};

// The functions from here to guard() run in a process that was forked before there was a second thread.

// The children of a process, whichever thread of it made them.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  const auto tasks = "/proc/" + std::to_string(parent) + "/task";
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

// What is stopped makes no more children, nor does it lose them to another parent.
void kill_tree(pid_t process) {
  ::kill(process, SIGSTOP);
  for (const pid_t child : children_of(process)) kill_tree(child);
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

// Nothing here may allocate.
[[noreturn]] void become_command(const char* command, char** environment, const sigset_t& mask, int input, int to_guard) {
  const pid_t self = ::getpid();
  if (::write(to_guard, &self, sizeof self) != sizeof self) ::_exit(not_guarded);
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

// Its status, as waitpid(2) gives it.
int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return status;
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
  ::getrlimit(RLIMIT_NOFILE, &files_);
  start_guard();
}

ChildRunner::~ChildRunner() {
  to_guard_.close();
  if (guard_ > 0) wait_for(guard_);
}

void ChildRunner::start_guard() {
  Pipe pipe;
  const SignalsBlocked blocked;
  guard_ = ::fork();
  if (guard_ == 0) guard(pipe.out.get());
  if (guard_ < 0) fail("starting a process");
  to_guard_ = std::move(pipe.in);
}

bool ChildRunner::guard_has_died() {
  if (::waitpid(guard_, nullptr, WNOHANG) != guard_) return false;
  guard_ = -1;
  return true;
}

int ChildRunner::run(const std::string& command, const std::vector<std::string>& variables, int input) {
  auto environment = environment_with(variables);
  for (;;) {
    if (guard_ < 0 || guard_has_died()) start_guard();
    const int status = run_once(command.c_str(), environment.data(), input);
    // Without a guard the command does not begin.
    const bool not_begun = WIFEXITED(status) && WEXITSTATUS(status) == not_guarded && guard_has_died();
    if (!not_begun) return status;
  }
}

void ChildRunner::pause(std::chrono::milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!stop_requested()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd stop = {stop_descriptor(), POLLIN, 0};
    ::poll(&stop, 1, static_cast<int>(waiting_ ? std::min(left, waiting_every).count() : left.count()));
    if (waiting_) waiting_();
  }
}

void ChildRunner::feed_until_end(Descriptor pipe, int file, int child) const {
  const BrokenPipeIgnored ignored;
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  auto called = std::chrono::steady_clock::now();
  for (;;) {
    pollfd ready[] = {{child, POLLIN, 0}, {pipe.get(), POLLOUT, 0}};
    const int count = ::poll(ready, 2, waiting_ ? static_cast<int>(waiting_every.count()) : -1);
    if (count < 0 && errno != EINTR) fail("waiting for the command");
    if (count > 0 && ready[0].revents != 0) return;
    if (count > 0 && !feed(pipe.get(), file)) pipe.close();
    if (const auto now = std::chrono::steady_clock::now(); waiting_ && now - called >= waiting_every) {
      called = now;
      waiting_();
    }
  }
}

int ChildRunner::run_once(const char* command, char** environment, int input) {
  if (::lseek(input, 0, SEEK_SET) != 0) fail("reading the batch for the command");
  Pipe pipe;
  enlarge_pipe(pipe.in.get());
  pid_t child;
  {
    const SignalsBlocked blocked;
    child = ::fork();
    if (child == 0) {
      ::setrlimit(RLIMIT_NOFILE, &files_);
      become_command(command, environment, blocked.before(), pipe.out.get(), to_guard_.get());
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
  return wait_for(child);
}

}  // namespace partlog::cmd

#include "signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

#include "partlog/error.h"
#include "text.h"

namespace partlog::cmd {
namespace {

std::atomic<bool> stop_{false};
std::atomic<int> signal_{0};
int pipe_[2] = {-1, -1};

// A signal may come just before a blocking call that it should interrupt, so another follows every 20 ms.
void keep_interrupting() {
  struct sigaction nothing{};
  nothing.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &nothing, nullptr);
  const itimerval often{{0, 20000}, {0, 20000}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
}

void on_signal(int signal) {
  int saved = errno;
  keep_interrupting();
  signal_ = signal;
  stop_ = true;
  [[maybe_unused]] ssize_t written = ::write(pipe_[1], "", 1);
  errno = saved;
}

// A placeholder that can be neither read nor written the way the closed descriptor would be used.
void occupy(int descriptor, int mode) {
  if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", mode);
}

}  // namespace

void prepare_process() {
  occupy(STDIN_FILENO, O_WRONLY);
  occupy(STDOUT_FILENO, O_RDONLY);
  occupy(STDERR_FILENO, O_RDONLY);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_IGN);
}

void catch_stop_signals() {
  if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error(ErrorCode::io, "making a pipe for signals: " + system_message(errno), errno);
  }
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    ::sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESETHAND;
    ::sigaction(signal, &action, nullptr);
  }
}

const std::atomic<bool>& stop_requested() { return stop_; }
int stop_descriptor() { return pipe_[0]; }
int signal_status() { return 128 + signal_.load(); }

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}
SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

SignalsAllowed::SignalsAllowed(const sigset_t& before) { ::pthread_sigmask(SIG_SETMASK, &before, &blocked_); }
SignalsAllowed::~SignalsAllowed() { ::pthread_sigmask(SIG_SETMASK, &blocked_, nullptr); }

void survive_broken_pipes() { ::signal(SIGPIPE, SIG_IGN); }

void die_of_broken_pipe() {
  ::signal(SIGPIPE, SIG_DFL);
  ::raise(SIGPIPE);
  ::_exit(128 + SIGPIPE);  // only if the signal is blocked
}

}  // namespace partlog::cmd

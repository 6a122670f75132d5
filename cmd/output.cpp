#include "output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "partlog/error.h"
#include "processors.h"
#include "signals.h"
#include "text.h"

namespace partlog::cmd {
namespace {

constexpr std::size_t page = 4096;
constexpr int pipe_size = 1 << 20;
// How long a reader that takes nothing may hold us up once a signal asked us to end.
constexpr std::chrono::milliseconds patience{2000};

constexpr std::size_t buffer_size = page + Output::capacity + Output::slack;
// Before so much was written it is not worth it to start a thread.
constexpr std::size_t worth_a_thread = 8 << 20;

mode_t type_of(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

bool is_pipe(int descriptor) { return type_of(descriptor) == S_IFIFO; }

bool second_thread_helps(int descriptor) { return type_of(descriptor) == S_IFREG && processors() > 1; }

// Signals do not cut the wait short, but for the one that asks us to end.
bool becomes_writable(int descriptor, std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  const bool stopping = stop_requested();
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd ready = {descriptor, POLLOUT, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::max(left.count(), std::int64_t{0})));
    if (found >= 0 || errno != EINTR) return found != 0;
    if (stop_requested() && !stopping) return true;
  }
}

[[noreturn]] void fail(int error) { throw Error(ErrorCode::io, "write to standard output: " + system_message(error), error); }

}  // namespace

void enlarge_pipe(int descriptor) { ::fcntl(descriptor, F_SETPIPE_SZ, pipe_size); }

Output::Output(int descriptor, SecondThread second_thread)
    : descriptor_(descriptor),
      buffer_(buffer_size),
      start_(buffer_.get()),
      at_(start_),
      limit_(start_ + page + capacity),
      is_pipe_(is_pipe(descriptor)),
      second_thread_(second_thread) {
  enlarge_pipe(descriptor);
}

void Output::flush() {
  wait_for_writer();
  const char* const from = start_;
  const auto size = static_cast<std::size_t>(at_ - from);
  start_ = at_ = buffer_.get() + static_cast<std::size_t>(at_ - buffer_.get()) % page;
  write_all(from, size);
}

// Writes whole pages; what is left of the last one goes to the front.
void Output::spill() {
  const auto rest = static_cast<std::size_t>(at_ - buffer_.get()) % page;
  const char* const from = start_;
  char* const end = at_ - rest;
  if (end <= from) return flush();
  if (second_thread_ == SecondThread::if_it_helps && handed_on_ >= worth_a_thread) {
    second_thread_ = SecondThread::never;
    if (second_thread_helps(descriptor_)) start_writer();
  }
  if (writer_) return hand_over(end, rest);
  start_ = at_ = buffer_.get();
  write_all(from, static_cast<std::size_t>(end - from));
  std::memmove(start_, end, rest);
  at_ = start_ + rest;
}

void Output::start_writer() {
  try {
    writer_ = std::make_unique<BackgroundWriter>(descriptor_, buffer_size);
  } catch (const std::system_error&) {
    // No more threads for this user: it goes without.
  }
}

void Output::hand_over(char* end, std::size_t rest) {
  if (const int error = writer_->failure()) fail(error);
  auto next = writer_->take();
  std::memcpy(next.get(), end, rest);
  handed_on_ += static_cast<std::uint64_t>(end - start_);
  writer_->write(std::exchange(buffer_, std::move(next)), start_, static_cast<std::size_t>(end - start_));
  start_ = buffer_.get();
  at_ = start_ + rest;
  limit_ = start_ + page + capacity;
}

void Output::wait_for_writer() {
  if (!writer_) return;
  writer_->drain();
  if (const int error = writer_->failure()) fail(error);
}

void Output::finish() {
  flush();
  if (::close(descriptor_) != 0 && errno != EBADF && errno != EINTR) fail(errno);
}

void Output::append_large(std::string_view bytes) {
  flush();
  write_all(bytes.data(), bytes.size());
}

void Output::call_while_waiting(std::function<void()> waiting, std::chrono::milliseconds every) {
  if (!is_pipe_) return;
  // The mode of the descriptor that we were given is shared with others.
  not_blocking_ = Descriptor(::open(("/proc/self/fd/" + std::to_string(descriptor_)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  waiting_ = std::move(waiting);
  waiting_every_ = every;
}

void Output::write_all(const char* data, std::size_t size) {
  const int descriptor = not_blocking_.get() >= 0 ? not_blocking_.get() : descriptor_;
  while (size > 0) {
    if (stop_requested() && !becomes_writable(descriptor_, patience)) {
      throw Error(ErrorCode::interrupted, "interrupted while the reader took nothing");
    }
    const ssize_t written = ::write(descriptor, data, size);
    if (written >= 0) {
      data += written;
      size -= static_cast<std::size_t>(written);
      handed_on_ += static_cast<std::uint64_t>(written);
    } else if (errno == EAGAIN) {
      if (!becomes_writable(descriptor_, waiting_ ? waiting_every_ : std::chrono::hours(1)) && waiting_) waiting_();
    } else if (errno == EPIPE) {
      throw BrokenPipe();
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

std::uint64_t Output::taken() {
  const std::uint64_t written = handed_on_ - (writer_ ? writer_->pending() : 0);
  int waiting = 0;
  if (!is_pipe_ || ::ioctl(descriptor_, FIONREAD, &waiting) != 0) return written;
  // Others may write into the same pipe.
  return written - std::min(written, static_cast<std::uint64_t>(waiting));
}

void Output::require_reader() const {
  pollfd reader = {descriptor_, 0, 0};
  if (::poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP)) != 0) throw BrokenPipe();
}

}  // namespace partlog::cmd

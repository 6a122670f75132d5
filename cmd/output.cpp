#include "output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "partlog/error.h"
#include "signals.h"
#include "text.h"

namespace partlog::cmd {
namespace {

constexpr std::size_t page = 4096;
constexpr int pipe_size = 1 << 20;
// How long a reader that takes nothing may hold us up once a signal asked us to end.
constexpr int patience_ms = 2000;

char* allocate_pages(std::size_t size) {
  void* memory = std::aligned_alloc(page, (size + page - 1) / page * page);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

[[noreturn]] void fail(int error) { throw Error(ErrorCode::io, "write to standard output: " + system_message(error), error); }

}  // namespace

void enlarge_pipe(int descriptor) { ::fcntl(descriptor, F_SETPIPE_SZ, pipe_size); }

Output::Output(int descriptor)
    : descriptor_(descriptor),
      buffer_(allocate_pages(page + capacity + slack), std::free),
      start_(buffer_.get()),
      at_(start_),
      limit_(start_ + page + capacity) {
  enlarge_pipe(descriptor);
}

void Output::flush() {
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
  start_ = at_ = buffer_.get();
  write_all(from, static_cast<std::size_t>(end - from));
  std::memmove(start_, end, rest);
  at_ = start_ + rest;
}

void Output::finish() {
  flush();
  if (::close(descriptor_) != 0 && errno != EBADF && errno != EINTR) fail(errno);
}

void Output::append_large(std::string_view bytes) {
  flush();
  write_all(bytes.data(), bytes.size());
}

void Output::write_all(const char* data, std::size_t size) {
  while (size > 0) {
    if (stop_requested()) {
      pollfd ready = {descriptor_, POLLOUT, 0};
      if (::poll(&ready, 1, patience_ms) == 0) throw Error(ErrorCode::interrupted, "interrupted while the reader took nothing");
    }
    ssize_t written = ::write(descriptor_, data, size);
    if (written >= 0) {
      data += written;
      size -= static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd ready = {descriptor_, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno == EPIPE) {
      die_of_broken_pipe();
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void Output::require_reader() const {
  pollfd reader = {descriptor_, 0, 0};
  if (::poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP)) != 0) die_of_broken_pipe();
}

}  // namespace partlog::cmd

// What goes to standard output: a buffer written with write(2), nothing at all between it and the descriptor.
//
// Into a regular file, where copying takes about as long as making what is copied, full buffers are written by a second thread
// while the next one is filled, provided that there is much to write and a second processor to do it. Everything else is written
// by the caller, who finds nothing else changed: the order, the errors (thrown by the next call), what flush() means.
//
// A failed write is Error(io) "write to standard output: <reason>"; of a pipe or socket whose reader went away, BrokenPipe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

#include "background_writer.h"
#include "descriptor.h"

namespace partlog::cmd {

class Output {
 public:
  static constexpr std::size_t capacity = 256 << 10;
  // Room behind what room() promises, which writers may overwrite with rubbish.
  static constexpr std::size_t slack = 64;

  enum class SecondThread { if_it_helps, never };
  // Enlarges the pipe that `descriptor` may be.
  explicit Output(int descriptor = 1, SecondThread second_thread = SecondThread::if_it_helps);

  // A place for `size` bytes, at most `capacity`, and `slack`; written by advance() to their end.
  char* room(std::size_t size) {
    if (size > static_cast<std::size_t>(limit_ - at_)) spill();
    return at_;
  }
  void advance(char* end) { at_ = end; }

  void append(std::string_view bytes) {
    if (bytes.size() > capacity / 2) return append_large(bytes);
    char* to = room(bytes.size());
    std::memcpy(to, bytes.data(), bytes.size());
    at_ = to + bytes.size();
  }

  void flush();
  // flush() and close: some file systems tell only then that they could not store what was written.
  void finish();

  int descriptor() const { return descriptor_; }
  // BrokenPipe if the reader of the pipe or socket has gone.
  void require_reader() const;

  // How many bytes were put here, and how many of them, from the first on, have left our hands: for a pipe those that were taken
  // out of it, else those whose write has returned.
  std::uint64_t appended() const { return handed_on_ + static_cast<std::uint64_t>(at_ - start_); }
  std::uint64_t taken();
  // While the reader of a pipe takes nothing, `waiting` is called every so often.
  void call_while_waiting(std::function<void()> waiting, std::chrono::milliseconds every);

 private:
  void append_large(std::string_view bytes);
  void spill();
  void write_all(const char* data, std::size_t size);
  void start_writer();
  void hand_over(char* end, std::size_t rest);
  void wait_for_writer();

  int descriptor_;
  // Of what is written, a byte lies as far behind a page boundary here as it will in the file, if that is empty at first: the
  // kernel copies faster so.
  Pages buffer_;
  char* start_;  // of what is not written yet
  char* at_;
  char* limit_;
  std::uint64_t handed_on_ = 0;  // bytes that were written, or will be by the second thread
  bool is_pipe_;
  std::function<void()> waiting_;
  std::chrono::milliseconds waiting_every_{0};
  Descriptor not_blocking_;  // the pipe once more, for us alone
  SecondThread second_thread_;
  std::unique_ptr<BackgroundWriter> writer_;  // once it is worth it
};

// Makes a pipe as large as an unprivileged process may; no harm where it is none.
void enlarge_pipe(int descriptor);

}  // namespace partlog::cmd

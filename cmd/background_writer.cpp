#include "background_writer.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "signals.h"

namespace partlog::cmd {
namespace {

struct Written {
  std::size_t size;
  int error;  // errno, 0: everything was written
};

Written write_all(int descriptor, const char* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t written = ::write(descriptor, data + done, size - done);
    if (written < 0 && errno != EINTR) return {done, errno};
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  return {done, 0};
}

}  // namespace

BackgroundWriter::BackgroundWriter(int descriptor, std::size_t buffer_size) : descriptor_(descriptor) {
  for (std::size_t i = 1; i < buffers; ++i) empty_.emplace_back(buffer_size);
  const SignalsBlocked blocked;  // they go to the threads that were there before
  thread_ = std::thread([this] { run(); });
}

BackgroundWriter::~BackgroundWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  handed_over_.notify_one();
  thread_.join();
}

Pages BackgroundWriter::take() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [this] { return !empty_.empty(); });
  auto buffer = std::move(empty_.back());
  empty_.pop_back();
  return buffer;
}

void BackgroundWriter::write(Pages buffer, const char* from, std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(buffer), from, size});
    pending_ += size;
  }
  handed_over_.notify_one();
}

void BackgroundWriter::drain() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [this] { return waiting_.empty() && !writing_; });
}

int BackgroundWriter::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::size_t BackgroundWriter::pending() {
  const std::lock_guard lock(mutex_);
  return pending_;
}

void BackgroundWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    handed_over_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto chunk = std::move(waiting_.front());
    waiting_.pop_front();
    if (failure_ == 0) {
      writing_ = true;
      lock.unlock();
      const auto [written, error] = write_all(descriptor_, chunk.from, chunk.size);
      lock.lock();
      writing_ = false;
      failure_ = error;
      pending_ -= written;
    }
    empty_.push_back(std::move(chunk.buffer));
    given_back_.notify_one();
  }
}

}  // namespace partlog::cmd

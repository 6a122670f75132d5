#include "inspect/checksums_ahead.h"

#include <algorithm>
#include <array>
#include <exception>
#include <system_error>

#include "os/threads.h"

namespace partlog::inspect {

namespace {

constexpr std::size_t piece = 64 << 10;
constexpr std::size_t window_size = 256 << 10;
constexpr std::int64_t job_bytes = 2 << 20;
constexpr std::size_t most_batches = 1024;  // of a job; smaller batches are as fast to look at as to look for
constexpr std::size_t most_jobs = 16;

}  // namespace

std::uint32_t checksum_of(log::Window& window, std::int64_t position, const format::BatchHeader& header) {
  std::uint32_t sum = 0;
  const auto end = position + header.size();
  for (auto at = position + static_cast<std::int64_t>(format::checksum_start(header)); at < end;) {
    const auto bytes = window.view(at, std::min(static_cast<std::size_t>(end - at), piece));
    if (bytes.empty()) break;
    const auto ours = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(end - at)));
    sum = format::extend_checksum(header, sum, ours);
    at += static_cast<std::int64_t>(ours.size());
  }
  return sum;
}

ChecksumsAhead::ChecksumsAhead(const os::File& file, std::int64_t position, std::int64_t end, int threads)
    : file_(file), frontier_(position), end_(end) {
  try {
    for (int i = 0; i < threads; ++i) threads_.push_back(os::start_thread([this] { work(); }));
  } catch (const std::system_error&) {
    ended_ = threads_.empty();
  }
}

ChecksumsAhead::~ChecksumsAhead() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  room_.notify_all();
  for (auto& thread : threads_) thread.join();
}

const ChecksumsAhead::Batch* ChecksumsAhead::at(std::int64_t position) {
  std::unique_lock lock(mutex_);
  for (;;) {
    done_.wait(lock, [this] { return jobs_.empty() ? ended_ : jobs_.front()->done; });
    if (jobs_.empty()) return nullptr;
    const auto& batches = jobs_.front()->batches;
    while (at_ < batches.size() && batches[at_].position < position) ++at_;
    if (at_ < batches.size()) return batches[at_].position == position ? &batches[at_] : nullptr;
    jobs_.pop_front();
    at_ = 0;
    room_.notify_one();
  }
}

void ChecksumsAhead::work() {
  log::Window window(file_, window_size, false);
  std::unique_lock lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] { return ended_ || jobs_.size() < most_jobs; });
    if (ended_) break;
    auto& job = *jobs_.emplace_back(std::make_unique<Job>());
    try {
      walk(job, window);
      lock.unlock();
      for (auto& batch : job.batches) batch.sum = checksum_of(window, batch.position, batch.header);
      lock.lock();
    } catch (const std::exception&) {  // who asks reads it again, and finds out why
      if (!lock.owns_lock()) lock.lock();
      job.batches.clear();
      ended_ = true;
    }
    if (job.batches.empty()) ended_ = true;
    job.done = true;
    done_.notify_one();
  }
  done_.notify_one();
  room_.notify_all();
}

// Takes headers from the frontier on, as far as they are plainly right.
void ChecksumsAhead::walk(Job& job, log::Window& window) {
  const auto limit = std::min(end_, frontier_ + job_bytes);
  while (frontier_ < limit && job.batches.size() < most_batches) {
    std::array<char, format::batch_header_size> bytes;
    const bool is_small = !job.batches.empty() && job.batches.back().header.size() < static_cast<std::int64_t>(piece / 16);
    const auto header = format::read_whole_header(is_small ? window.view(frontier_, bytes.size())
                                                           : std::span<const char>(bytes).first(file_.read_at(bytes, frontier_)));
    if (!header || format::header_fault(*header) != nullptr || header->size() > end_ - frontier_) break;
    job.batches.push_back({frontier_, *header, 0});
    frontier_ += header->size();
  }
  if (job.batches.size() == most_batches) job.batches.clear();
}

}  // namespace partlog::inspect

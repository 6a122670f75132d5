// Growable bytes that nobody initialises (std::vector would write every byte twice).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace partlog {

class RawBuffer {
 public:
  RawBuffer() = default;
  RawBuffer(RawBuffer&& other) noexcept { *this = std::move(other); }
  RawBuffer& operator=(RawBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    data_ = std::exchange(other.data_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    lead_ = other.lead_;
    return *this;
  }

  char* data() { return data_; }
  const char* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }

  // Afterwards there is room for `wanted` bytes; what was there stays, at another address perhaps. Grows by half at least.
  void grow(std::size_t wanted) {
    if (wanted <= capacity_) return;
    wanted = std::max(wanted, capacity_ + capacity_ / 2);
    const std::size_t size = (lead_ + wanted + page - 1) / page * page;
    std::unique_ptr<char, Free> larger(static_cast<char*>(std::aligned_alloc(page, size)));
    if (!larger) throw std::bad_alloc();
    if (capacity_ > 0) std::memcpy(larger.get() + lead_, data_, capacity_);
    memory_ = std::move(larger);
    data_ = memory_.get() + lead_;
    capacity_ = size - lead_;
  }

  // Gives up what is there; from now on data() lies as far behind a page boundary as `position` of a file does. The kernel copies
  // several times slower between places that differ by a few bytes in that.
  void align_with(std::int64_t position) {
    const auto lead = static_cast<std::size_t>(position) % page;
    if (memory_) {
      capacity_ = capacity_ + lead_ - lead;
      data_ = memory_.get() + lead;
    }
    lead_ = lead;
  }

  void release() { *this = RawBuffer(); }

 private:
  static constexpr std::size_t page = 4096;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory_;  // begins at a page boundary
  char* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t lead_ = 0;
};

}  // namespace partlog

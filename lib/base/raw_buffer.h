// Growable bytes that nobody initialises (std::vector would write every byte twice).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace partlog {

class RawBuffer {
 public:
  RawBuffer() = default;
  RawBuffer(RawBuffer&& other) noexcept : data_(std::move(other.data_)), capacity_(std::exchange(other.capacity_, 0)) {}
  RawBuffer& operator=(RawBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  char* data() { return data_.get(); }
  const char* data() const { return data_.get(); }
  std::size_t capacity() const { return capacity_; }

  // Afterwards there is room for `wanted` bytes; what was there stays, at another address perhaps. Grows by half at least.
  void grow(std::size_t wanted) {
    if (wanted <= capacity_) return;
    wanted = std::max(wanted, capacity_ + capacity_ / 2);
    void* grown = std::realloc(data_.get(), wanted);
    if (grown == nullptr) throw std::bad_alloc();
    static_cast<void>(data_.release());
    data_.reset(static_cast<char*>(grown));
    capacity_ = wanted;
  }

  void release() {
    data_.reset();
    capacity_ = 0;
  }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data_;
  std::size_t capacity_ = 0;
};

}  // namespace partlog

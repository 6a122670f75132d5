// Memory that begins on a page boundary, as reads and writes of files like it. It is mapped, so that it can grow without a copy.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace partlog::cmd {

constexpr std::size_t page_size = 4096;

class Pages {
 public:
  Pages() = default;
  explicit Pages(std::size_t size) : size_(whole(size)) {
    void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
  }
  Pages(Pages&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Pages() {
    if (memory_ != nullptr) ::munmap(memory_, size_);
  }

  char* get() const { return memory_; }
  std::size_t size() const { return size_; }

  // What is there stays, at another address perhaps.
  void grow(std::size_t size) {
    if (memory_ == nullptr) {
      *this = Pages(size);
      return;
    }
    void* const memory = ::mremap(memory_, size_, whole(size), MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    size_ = whole(size);
  }

 private:
  static std::size_t whole(std::size_t size) { return (size + page_size - 1) / page_size * page_size; }

  char* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace partlog::cmd

// Memory that begins on a page boundary, as reads and writes of files like it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace partlog::cmd {

constexpr std::size_t page_size = 4096;

struct FreePages {
  void operator()(char* memory) const { std::free(memory); }
};
using Pages = std::unique_ptr<char, FreePages>;

inline Pages allocate_pages(std::size_t size) {
  void* memory = std::aligned_alloc(page_size, (size + page_size - 1) / page_size * page_size);
  if (memory == nullptr) throw std::bad_alloc();
  return Pages(static_cast<char*>(memory));
}

}  // namespace partlog::cmd

// A sliding view of a file that is read from front to back: by pread into a buffer, or through a mapping where the file is never
// shortened (a segment with a successor, on a local file system).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "os/file.h"

namespace partlog::log {

class Window {
 public:
  Window(const os::File& file, std::size_t size, bool mapped);

  // At least `want` bytes from `position` on, fewer only at the end of the file; often more. Valid until the next call. The end
  // of a file that is not mapped is where it was when the bytes were read: call forget() to look again.
  std::span<const char> view(std::int64_t position, std::size_t want);

  // Whether the file has bytes up to this position, as it is now.
  bool file_reaches(std::int64_t position) const;

  // Drops what was read.
  void forget();

  // Bytes held of the file; of a mapping, up to the last one asked for.
  std::size_t memory() const { return mapped_ ? asked_for_ : capacity_; }

 private:
  std::span<const char> held(std::int64_t position) const;
  void read(std::int64_t position, std::size_t want);
  void map(std::int64_t position, std::size_t want);

  struct Free {
    void operator()(char* p) const;
  };

  const os::File* file_;
  std::size_t size_;
  bool mapped_;
  std::int64_t file_size_ = 0;  // mapped only
  std::int64_t start_ = 0;      // file position of the first held byte
  std::span<const char> bytes_;
  os::Mapping mapping_;
  std::size_t asked_for_ = 0;  // mapped only
  std::unique_ptr<char[], Free> buffer_;
  std::size_t capacity_ = 0;
  bool was_oversized_ = false;  // at the last read
};

}  // namespace partlog::log

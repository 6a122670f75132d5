// Copies of records, in one block of memory of a given size: the records from its front, their bytes from its end.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "partlog/record.h"

namespace partlog::cmd {

class RecordCopies {
 public:
  // No memory is taken before the first record.
  explicit RecordCopies(std::size_t capacity) : capacity_(capacity / sizeof(Record)), bytes_at_(capacity_ * sizeof(Record)) {}

  // False: there is no room for it.
  bool add(const Record& record);
  void clear();
  // Valid until the next call of any other function.
  std::span<const Record> records() const { return {block_.get(), count_}; }

 private:
  const char* copy(std::string_view bytes);

  std::size_t capacity_;  // of the block, in records
  std::unique_ptr<Record[]> block_;
  std::size_t count_ = 0;
  std::size_t bytes_at_;  // where the bytes begin in the block
};

}  // namespace partlog::cmd

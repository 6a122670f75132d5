#include "record_copies.h"

#include <cstring>

namespace partlog::cmd {

bool RecordCopies::add(const Record& record) {
  const auto size = record.key.size() + record.value.size() + record.headers.size;
  if (size + (count_ + 1) * sizeof(Record) > bytes_at_) return false;
  if (!block_) block_ = std::make_unique_for_overwrite<Record[]>(capacity_);
  auto copied = record;
  if (!record.key.is_null()) copied.key = {copy(record.key.view()), record.key.size()};
  if (!record.value.is_null()) copied.value = {copy(record.value.view()), record.value.size()};
  copied.headers.data = copy({record.headers.data, record.headers.size});
  block_[count_++] = copied;
  return true;
}

void RecordCopies::clear() {
  count_ = 0;
  bytes_at_ = capacity_ * sizeof(Record);
}

const char* RecordCopies::copy(std::string_view bytes) {
  bytes_at_ -= bytes.size();
  char* const to = reinterpret_cast<char*>(block_.get()) + bytes_at_;
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to;
}

}  // namespace partlog::cmd

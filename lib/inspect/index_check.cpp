#include "inspect/index_check.h"

#include <algorithm>
#include <span>

#include "inspect/unreadable.h"

namespace partlog::inspect {

namespace {

constexpr std::size_t piece_size = 64 << 10;

bool is_zero(std::span<const char> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

}  // namespace

EntryCursor::EntryCursor(const std::string& path, std::size_t size) : size_(size) {
  try {
    file_ = os::File::open_if_exists(path, os::File::Mode::read);
    if (file_) file_size_ = file_->size();
  } catch (const Error& error) {
    if (!is_unreadable(error)) throw;
    unreadable_ = error.what();
  }
}

const char* EntryCursor::entry() {
  try {
    return read_entry();
  } catch (const Error& error) {
    if (!is_unreadable(error)) throw;
    unreadable_ = error.what();
    file_.reset();
    file_size_ = 0;
    return nullptr;
  }
}

const char* EntryCursor::read_entry() {
  const auto size = static_cast<std::int64_t>(size_);
  if (at_ + size > file_size_) return nullptr;
  if (at_ < read_at_ || at_ + size > read_at_ + static_cast<std::int64_t>(bytes_.size())) {
    bytes_.resize(std::min(piece_size, static_cast<std::size_t>(file_size_ - at_)));
    bytes_.resize(file_->read_at(bytes_, at_));
    read_at_ = at_;
    if (bytes_.size() < size_) return nullptr;  // cut meanwhile
  }
  return bytes_.data() + (at_ - read_at_);
}

bool EntryCursor::is_padding() {
  const char* first = entry();
  if (first == nullptr || !is_zero({first, size_})) return false;
  std::vector<char> bytes(piece_size);
  for (auto at = at_; at < file_size_;) {
    const auto want = std::min(piece_size, static_cast<std::size_t>(file_size_ - at));
    const auto got = file_->read_at(std::span(bytes).first(want), at);
    if (got == 0) break;
    if (!is_zero(std::span<const char>(bytes).first(got))) return false;
    at += static_cast<std::int64_t>(got);
  }
  at_ = file_size_;
  return true;
}

void IndexFault::add(Position position, const char* reason) {
  if (count_++ > 0) return;
  position_ = position;
  reason_ = reason;
}

std::optional<CheckFinding> IndexFault::finding(const std::string& path, const EntryCursor& entries) const {
  if (!entries.unreadable().empty()) return CheckFinding{CheckFinding::Kind::damage, path, {}, {}, {}, {}, entries.unreadable()};
  if (count_ == 0) return std::nullopt;
  auto reason = reason_;
  if (count_ > 1) reason += "; " + std::to_string(count_ - 1) + " more of its entries are wrong";
  return CheckFinding{CheckFinding::Kind::damage, path, position_, {}, {}, {}, reason + "; --reindex makes it anew"};
}

OffsetIndexCheck::OffsetIndexCheck(const std::string& path, Offset base)
    : path_(path), base_(base), entries_(path, format::offset_index_entry_size) {}

std::optional<format::OffsetIndexEntry> OffsetIndexCheck::next() {
  const char* bytes = entries_.entry();
  if (bytes == nullptr) return std::nullopt;
  const auto entry = format::decode_offset_index_entry(bytes, base_);
  if (entry.position.value == 0 && entry.offset == base_ && entries_.is_padding()) return std::nullopt;
  return entry;
}

// What the open entry covers has been seen. Its offset must have been one of those that brokers write: the last of a batch, also
// of a later one where several were appended at once, or the first (before 2.0); or, behind a compaction, one inside.
void OffsetIndexCheck::close() {
  if (open_ && !is_matched_) fault_.add(open_at_, "the offset is not that of the batch at its position");
  open_.reset();
}

void OffsetIndexCheck::add(const BatchInfo& batch) {
  for (auto entry = next(); entry && entry->position <= batch.position; entry = next()) {
    close();
    if (entry->position == batch.position) {
      open_ = entry;
      open_at_ = entries_.position();
      is_matched_ = false;
    } else {
      fault_.add(entries_.position(), "no batch begins at its position");
    }
    entries_.advance();
  }
  last_ = batch.last_offset;
  if (!open_ || is_matched_ || open_->offset < batch.base_offset || open_->offset > batch.last_offset) return;
  const bool has_holes = batch.count != batch.last_offset - batch.base_offset + 1;
  is_matched_ = open_->offset == batch.last_offset || open_->offset == batch.base_offset || has_holes;
}

void OffsetIndexCheck::pass_over(Position position, Position end) {
  is_matched_ = true;
  for (auto entry = next(); entry && entry->position < end; entry = next()) {
    if (entry->position < position) fault_.add(entries_.position(), "no batch begins at its position");
    close();
    entries_.advance();
  }
}

std::optional<CheckFinding> OffsetIndexCheck::finish() {
  close();
  for (; next(); entries_.advance()) fault_.add(entries_.position(), "its position is behind the end of the segment");
  if (entries_.is_there() && entries_.position().value < entries_.file_size()) {
    fault_.add(entries_.position(), "the file ends inside an entry");
  }
  return fault_.finding(path_, entries_);
}

TimeIndexCheck::TimeIndexCheck(const std::string& path, Offset base)
    : path_(path), base_(base), entries_(path, format::time_index_entry_size) {}

std::optional<format::TimeIndexEntry> TimeIndexCheck::next() {
  const char* bytes = entries_.entry();
  if (bytes == nullptr) return std::nullopt;
  const auto entry = format::decode_time_index_entry(bytes, base_);
  if (entry.timestamp.value == 0 && entry.offset == base_ && entries_.is_padding()) return std::nullopt;
  return entry;
}

// An entry says that no batch before that with its offset has a later timestamp, and that this one has just that.
void TimeIndexCheck::add(const BatchInfo& batch) {
  for (auto entry = next(); entry && entry->offset <= batch.last_offset; entry = next()) {
    if (before_ && (entry->timestamp <= before_->timestamp || entry->offset < before_->offset)) {
      fault_.add(entries_.position(), "its timestamp or offset does not rise");
    } else if (entry->offset < batch.base_offset) {
      if (!is_behind_damage_) fault_.add(entries_.position(), "no batch has its offset");
    } else if (batch.max_timestamp != entry->timestamp) {
      fault_.add(entries_.position(), "its timestamp is not that of the batch with its offset");
    } else if (largest_ > entry->timestamp) {
      fault_.add(entries_.position(), "a batch before it has a later timestamp");
    }
    before_ = entry;
    entries_.advance();
  }
  is_behind_damage_ = false;
  largest_ = std::max(largest_, batch.max_timestamp);
}

std::optional<CheckFinding> TimeIndexCheck::finish() {
  for (; next(); entries_.advance()) {
    if (!is_behind_damage_) fault_.add(entries_.position(), "its offset is behind the end of the segment");
  }
  if (entries_.is_there() && entries_.position().value < entries_.file_size()) {
    fault_.add(entries_.position(), "the file ends inside an entry");
  }
  return fault_.finding(path_, entries_);
}

}  // namespace partlog::inspect

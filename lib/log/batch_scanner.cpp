#include "log/batch_scanner.h"

namespace partlog::log {

using format::batch_header_size;

namespace {

constexpr std::size_t worth_giving_back = 1 << 20;
constexpr std::size_t worth_asking = 1 << 20;

}  // namespace

// What only a look inside tells of a wrapper. If that fails, which is for the decoder to report, its own offset is all there is.
format::BatchHeader BatchScanner::looked_into(const format::BatchHeader& wrapper, std::span<const char> message) {
  set_.open(wrapper, message, format::default_decompression_limit);
  auto header = set_.header();
  if (set_.memory() > worth_giving_back) set_.release();
  return header;
}

// `size` bytes of the file, fewer if there are no more: then nothing is read for a length that promises much.
std::span<const char> BatchScanner::view_of(std::size_t size) {
  if (size > worth_asking && !window_.file_reaches(position_ + static_cast<std::int64_t>(size))) return {};
  return window_.view(position_, size);
}

// Whether the batch behind this one, whole and sound, has an offset that this one already covers.
bool BatchScanner::contradicted_by_next(std::size_t size) {
  auto bytes = window_.view(position_, size + batch_header_size);
  if (bytes.size() < size) return false;
  auto next = format::read_whole_header(bytes.subspan(size));
  if (!next || format::header_fault(*next) != nullptr) return false;
  if (!next->is_wrapper() && next->base_offset >= header_.next_offset()) return false;
  const auto both = size + static_cast<std::size_t>(next->size());
  if (both > largest_) return false;
  bytes = view_of(both);
  if (bytes.size() < both || !format::checksum_matches(*next, bytes.subspan(size))) return false;
  if (next->is_wrapper()) next = looked_into(*next, bytes.subspan(size));
  return next->base_offset < header_.next_offset();
}

// The base offset stands outside the checksum: a gap in front of it is believed unless what follows, or the 31 bits that a
// segment has for offsets, say otherwise.
bool BatchScanner::offset_is_credible(std::size_t size) {
  return header_.last_offset() - expected_ <= std::numeric_limits<std::int32_t>::max() && !contradicted_by_next(size);
}

Scan BatchScanner::cut_short(bool is_v2, const char* why) {
  fault_ = why;
  return is_v2 ? Scan::partial : Scan::invalid;
}

Scan BatchScanner::invalid(const char* why) {
  fault_ = why;
  return Scan::invalid;
}

bool BatchScanner::falls() {
  const auto header = format::read_whole_header(window_.view(position_, batch_header_size));
  if (!header || format::header_fault(*header) != nullptr || header->base_offset >= expected_) return false;
  const auto size = static_cast<std::size_t>(header->size());
  if (size > largest_) return false;
  const auto bytes = view_of(size);
  return bytes.size() >= size && format::checksum_matches(*header, bytes.first(size));
}

Scan BatchScanner::next() {
  position_ = next_position_;
  auto bytes = window_.view(position_, batch_header_size);
  if (bytes.empty()) return Scan::end;
  if (bytes.size() < format::batch_magic_end) return cut_short(true, "the file ends inside a batch header");
  const auto magic = bytes[format::field::magic];
  if (magic < 0 || magic > 2) return invalid("no record batch stands here");
  if (bytes.size() < format::header_size_of(magic)) return cut_short(magic == 2, "the file ends inside a batch header");
  header_ = format::read_batch_header(bytes);
  if (const char* fault = format::header_fault(header_)) {
    return invalid(magic == 2 ? fault : "no record batch stands here");  // zeros, for one
  }
  if (header_.base_offset < expected_) return invalid("its offset does not rise");
  const auto size = static_cast<std::size_t>(header_.size());
  if (size > largest_ && window_.file_reaches(position_ + header_.size())) return invalid("the batch is too large to be held");
  bytes = view_of(size);
  if (bytes.size() < size) return cut_short(magic == 2, "the file ends inside the batch");
  batch_ = bytes.first(size);
  if (!format::checksum_matches(header_, batch_)) return invalid("its checksum is wrong");
  if (header_.is_wrapper()) {
    header_ = looked_into(header_, batch_);
    if (header_.base_offset < expected_) return invalid("its offset does not rise");
  }
  if (header_.base_offset > expected_) {
    if (!offset_is_credible(size)) return invalid("its offset does not fit what follows");
    batch_ = window_.view(position_, size).first(size);
  }
  if (header_.last_offset() >= limit_) return invalid(too_far);
  next_position_ = position_ + header_.size();
  expected_ = header_.next_offset();
  return Scan::batch;
}

}  // namespace partlog::log

#include "log/batch_scanner.h"

#include <algorithm>

namespace partlog::log {

using format::batch_header_size;

namespace {

constexpr std::size_t worth_giving_back = 1 << 20;
constexpr std::size_t worth_asking = 1 << 20;
constexpr std::size_t piece = 256 << 10;

}  // namespace

std::uint32_t extend_in_pieces(Window& window, const format::BatchHeader& header, std::uint32_t sum, std::int64_t from,
                               std::int64_t end) {
  while (from < end) {
    const auto left = static_cast<std::size_t>(end - from);
    const auto bytes = window.view(from, std::min(left, piece));
    if (bytes.empty()) break;  // the file was cut meanwhile
    const auto taken = bytes.first(std::min(bytes.size(), left));
    sum = format::extend_checksum(header, sum, taken);
    from += static_cast<std::int64_t>(taken.size());
  }
  return sum;
}

std::uint32_t checksum_in_pieces(Window& window, const format::BatchHeader& header, std::int64_t position) {
  const auto from = position + static_cast<std::int64_t>(format::checksum_start(header));
  return extend_in_pieces(window, header, 0, from, position + header.size());
}

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
  const auto behind = position_ + static_cast<std::int64_t>(size);
  const auto held = batch_.size();  // of this one, so that it is not read again
  auto bytes = window_.view(behind - static_cast<std::int64_t>(held), held + batch_header_size);
  if (bytes.size() < held) return false;
  auto next = format::read_whole_header(bytes.subspan(held));
  if (!next || format::header_fault(*next) != nullptr) return false;
  if (!next->is_wrapper() && next->base_offset >= header_.next_offset()) return false;
  const bool is_small = static_cast<std::size_t>(next->size()) <= worth_asking;
  if (!next->is_wrapper() && (held == 0 || !is_small)) {
    Window pieces(*file_, piece, false);  // of its own: two large batches are not held at once
    return pieces.file_reaches(behind + next->size()) && checksum_in_pieces(pieces, *next, behind) == next->crc;
  }
  const auto both = held + static_cast<std::size_t>(next->size());
  if (both > largest_ || !window_.file_reaches(behind + next->size())) return false;
  bytes = window_.view(behind - static_cast<std::int64_t>(held), both);
  if (bytes.size() < both || !format::checksum_matches(*next, bytes.subspan(held))) return false;
  if (next->is_wrapper()) next = looked_into(*next, bytes.subspan(held));
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

// Of a batch with a gap in front of it.
bool BatchScanner::is_as_known() const {
  if (known_position_ == 0 || position_ == inexact_at_) return true;
  const auto end = position_ + header_.size();
  return end < known_position_ || (end == known_position_ && header_.next_offset() == known_next_);
}

bool BatchScanner::is_misplaced() {
  const auto header = format::read_whole_header(window_.view(position_, batch_header_size));
  if (!header || format::header_fault(*header) != nullptr) return false;
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
  if (size > largest_ && window_.file_reaches(position_ + header_.size()))
    return invalid("the batch is too large to be held: more than 48 MiB and than max.message.bytes allow");
  const bool in_pieces = !holds_large_ && size > worth_asking && !header_.is_wrapper();
  batch_ = {};
  if (in_pieces ? !window_.file_reaches(position_ + header_.size()) : view_of(size).size() < size) {
    return cut_short(magic == 2, "the file ends inside the batch");
  }
  if (!in_pieces) batch_ = window_.view(position_, size).first(size);
  if (in_pieces ? checksum_in_pieces(window_, header_, position_) != header_.crc : !format::checksum_matches(header_, batch_)) {
    return invalid("its checksum is wrong");
  }
  if (header_.is_wrapper()) {
    header_ = looked_into(header_, batch_);
    if (header_.base_offset < expected_) return invalid("its offset does not rise");
  }
  if (header_.base_offset > expected_) {
    if (!offset_is_credible(size)) return invalid("its offset does not fit what follows");
    if (!is_as_known()) return invalid("its offset does not fit the recovery point");
    if (!in_pieces) batch_ = window_.view(position_, size).first(size);
  }
  if (header_.last_offset() >= limit_) return invalid(too_far);
  next_position_ = position_ + header_.size();
  expected_ = header_.next_offset();
  return Scan::batch;
}

}  // namespace partlog::log

#include "log/torn_tail.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/crc32c.h"
#include "format/record_batch.h"
#include "log/window.h"

namespace partlog::log {

namespace {

using format::batch_header_size;
using format::BatchHeader;

constexpr std::size_t window_bytes = 256 << 10;
constexpr std::int64_t checksum_budget = 8;  // times the size of the file
constexpr auto header_bytes = static_cast<std::int64_t>(batch_header_size);

class Search {
 public:
  Search(const os::File& file, std::int64_t position, Offset expected)
      : sweep_(file, window_bytes, false),
        content_(file, window_bytes, false),
        size_(file.size()),
        budget_(checksum_budget * size_),
        at_(position + 1),
        start_(expected),
        expected_(expected) {
    look_at_the_torn_batch(position);
  }

  std::optional<Offset> run() {
    while (to_next_header()) {
      if (!take_batch()) pass();
      if (budget_ < 0) return end_.value_or(start_);
    }
    if (in_prefix_ && chain_end_ != size_) return std::nullopt;
    return end_;
  }

 private:
  std::optional<BatchHeader> header_at(std::int64_t position) {
    const auto bytes = sweep_.view(position, batch_header_size);
    if (bytes.size() < batch_header_size) return std::nullopt;
    const auto header = format::read_batch_header(bytes);
    if (format::header_fault(header) != nullptr) return std::nullopt;
    return header;
  }

  // Whether what stands at `position` is the prefix of one batch. Not so if its checksum is right with one bit less in its
  // length: that is a whole batch, and the search goes on behind it.
  void look_at_the_torn_batch(std::int64_t position) {
    const auto header = header_at(position);
    if (!header || header->base_offset < start_ || header->size() <= size_ - position) return;
    auto summed = position + static_cast<std::int64_t>(format::field::attributes);
    auto sum = crc32c({});
    for (int bit = 30; bit >= 0; --bit) {  // the shortest first
      auto other = *header;
      other.batch_length &= ~(1 << bit);
      const auto behind = position + other.size();
      if (other.batch_length == header->batch_length || format::header_fault(other) != nullptr || behind > size_) continue;
      sum = checksum(summed, behind, sum);
      summed = behind;
      if (sum != header->crc) continue;
      at_ = behind;
      return;
    }
    in_prefix_ = true;
  }

  // A header has the magic byte 2 at a fixed distance: jumps from one such byte to the next.
  bool to_next_header() {
    while (at_ <= size_ - header_bytes) {
      const auto bytes = sweep_.view(at_, batch_header_size);
      if (bytes.size() < batch_header_size) return false;
      const auto* from = bytes.data() + format::field::magic;
      const auto left = bytes.size() - format::field::magic;
      const auto* magic = static_cast<const char*>(std::memchr(from, 2, left));
      if (magic == from) return true;
      at_ += magic != nullptr ? magic - from : static_cast<std::int64_t>(left);
    }
    return false;
  }

  // If a whole batch stands here, goes on behind it.
  bool take_batch() {
    const auto header = header_at(at_);
    if (!header || header->base_offset < expected_) return false;
    const bool gap = header->base_offset > expected_;
    // As BatchScanner has it: a gap wider than a segment's 31 bits is none, nor is one that the next batch denies.
    if (gap && header->last_offset() - expected_ > std::numeric_limits<std::int32_t>::max()) return false;
    if (!is_sound(*header, at_)) return false;
    const auto behind = at_ + header->size();
    if (gap && is_denied(*header, behind)) {
      at_ = behind;
      return true;
    }
    at_ = chain_end_ = behind;
    end_ = expected_ = header->next_offset();
    return true;
  }

  bool is_denied(const BatchHeader& header, std::int64_t behind) {
    const auto next = header_at(behind);
    return next && next->base_offset < header.next_offset() && is_sound(*next, behind);
  }

  // No batch that continues what was found stands here. Inside a prefix another chain, with offsets of its own, may start here.
  void pass() {
    if (in_prefix_ && expected_ != start_) {
      expected_ = start_;
    } else {
      ++at_;
    }
  }

  // Whether the batch is whole and its checksum right. The last answer is remembered.
  bool is_sound(const BatchHeader& header, std::int64_t position) {
    if (header.size() > size_ - position) return false;
    if (summed_at_ != position || summed_size_ != header.size()) {
      budget_ -= header.size();
      sound_ = checksum(position + static_cast<std::int64_t>(format::field::attributes), position + header.size(), crc32c({})) ==
               header.crc;
      summed_at_ = position;
      summed_size_ = header.size();
    }
    return sound_;
  }

  // Piece by piece: what a header promises may be more than one wants to hold.
  std::uint32_t checksum(std::int64_t from, std::int64_t end, std::uint32_t sum) {
    auto& window = end - from < static_cast<std::int64_t>(window_bytes) ? sweep_ : content_;
    while (from < end) {
      const auto want = std::min(static_cast<std::size_t>(end - from), window_bytes);
      const auto bytes = window.view(from, want);
      if (bytes.empty()) break;  // the file was cut meanwhile
      const auto piece = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(end - from)));
      sum = crc32c_extend(sum, piece);
      from += static_cast<std::int64_t>(piece.size());
    }
    return sum;
  }

  Window sweep_;
  Window content_;
  std::int64_t size_;
  std::int64_t budget_;  // bytes
  std::int64_t at_;
  Offset start_;
  Offset expected_;
  bool in_prefix_ = false;
  std::optional<Offset> end_;
  std::int64_t chain_end_ = -1;
  std::int64_t summed_at_ = -1;
  std::int64_t summed_size_ = 0;
  bool sound_ = false;
};

}  // namespace

std::optional<Offset> end_of_chain_behind(const os::File& file, std::int64_t position, Offset expected) {
  return Search(file, position, expected).run();
}

}  // namespace partlog::log

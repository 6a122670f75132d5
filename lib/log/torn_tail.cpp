#include "log/torn_tail.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "base/byte_order.h"
#include "format/batch_header.h"
#include "log/batch_scanner.h"
#include "log/window.h"

namespace partlog::log {

namespace {

using format::batch_header_size;
using format::BatchHeader;

constexpr std::size_t window_bytes = 256 << 10;
constexpr std::int64_t worth_skipping = 1 << 20;
constexpr std::int64_t most_summed = 4 << 20;  // of a batch whose end is not known
constexpr std::int64_t checksum_budget = 8;    // times the size of the file
constexpr auto least_bytes = static_cast<std::int64_t>(format::min_message_size);
constexpr std::int64_t most_offsets = std::numeric_limits<std::int32_t>::max();  // in a segment

class Search {
 public:
  Search(const os::File& file, std::int64_t position, Offset expected)
      : file_(file),
        sweep_(file, window_bytes, false),
        content_(file, window_bytes, false),
        size_(file.size()),
        budget_(checksum_budget * size_),
        at_(position + 1),
        start_(expected),
        expected_(expected) {
    whole_end_ = whole_end(position);
    if (whole_end_) {
      at_ = *whole_end_;
    } else {
      look_at_the_torn_batch(position);
    }
  }

  // Where the batch at `position` ends, if only what stands in front of its checksum is damaged.
  const std::optional<std::int64_t>& end_of_whole() const { return whole_end_; }

  std::optional<Offset> run() {
    while (to_next_header()) {
      if (!take_batch()) pass();
      if (budget_ < 0) return end_.value_or(start_);
    }
    if (in_prefix_ && chain_end_ != size_) return std::nullopt;
    return end_;
  }

  // Whether a batch of this length may stand at `position`, as far as what is behind it tells.
  std::optional<std::int64_t> extent(std::int64_t position) {
    const auto header = header_at(position);
    if (!header || header->size() > size_ - position) return std::nullopt;
    const auto behind = position + header->size();
    if (behind == size_) return behind;
    const auto next = header_at(behind);
    return next && is_sound(*next, behind) ? std::optional(behind) : std::nullopt;
  }

  std::int64_t size() const { return size_; }

  std::optional<std::int64_t> first() {
    while (to_next_header()) {
      if (!take_batch()) pass();
      if (budget_ < 0) return end_ ? chain_start_ : size_;
      if (end_ && !in_prefix_) return chain_start_;
    }
    if (in_prefix_ && chain_end_ != size_) return std::nullopt;
    return end_ ? std::optional(chain_start_) : std::nullopt;
  }

  // The first batch, whatever its offset, from which batches stand in a row up to `goal`.
  std::optional<std::int64_t> first_leading_to(std::int64_t goal) {
    while (budget_ >= 0 && to_next_header() && at_ < goal) {
      const auto start = at_;
      if (const auto header = header_at(start); header && is_sound(*header, start)) {
        while (at_ < goal && step_over_batch()) continue;
        if (at_ >= goal || (!in_prefix_ && is_cut_short(at_))) return start;
      }
      at_ = std::max(at_, start + 1);
    }
    return std::nullopt;
  }

 private:
  bool step_over_batch() {
    const auto header = header_at(at_);
    if (!header || !(is_sound(*header, at_) || extent(at_))) return false;
    at_ += header->size();
    return true;
  }

  // The file ends inside of what stands there.
  bool is_cut_short(std::int64_t position) {
    if (size_ - position < static_cast<std::int64_t>(batch_header_size)) return true;
    const auto header = header_at(position);
    return header && header->size() > size_ - position;
  }

  std::optional<BatchHeader> header_at(std::int64_t position) {
    const auto header = format::read_whole_header(sweep_.view(position, batch_header_size));
    if (!header || format::header_fault(*header) != nullptr) return std::nullopt;
    return header;
  }

  // The checksum tells, wherever a header follows or the file ends, whether it covers just what is in front of that: its values
  // may hold whole batches, which are not the log's.
  std::optional<std::int64_t> whole_end(std::int64_t position) {
    const auto bytes = sweep_.view(position, batch_header_size);
    if (bytes.size() < batch_header_size) return std::nullopt;
    BatchHeader header;
    header.crc = load_big_endian<std::uint32_t>(bytes.data() + format::field::crc);
    if (header.crc == 0) return std::nullopt;  // nothing was written there
    auto summed = position + static_cast<std::int64_t>(format::field::attributes);
    std::uint32_t sum = 0;
    const auto is_here = [&](std::int64_t end) {
      sum = extend_in_pieces(content_, header, sum, summed, end);
      summed = end;
      return sum == header.crc;
    };
    const auto limit = position + most_summed;
    at_ = position + static_cast<std::int64_t>(batch_header_size);
    std::optional<std::int64_t> end;
    while (!end && to_next_header() && at_ <= limit) {
      if (header_at(at_) && is_here(at_)) end = at_;
      ++at_;
    }
    at_ = position + 1;
    return end || size_ > limit || !is_here(size_) ? end : size_;
  }

  // Whether what stands at `position` is the prefix of one batch. Not so if its checksum is right with one bit less in its
  // length: that is a whole batch, and the search goes on behind it.
  void look_at_the_torn_batch(std::int64_t position) {
    const auto header = header_at(position);
    if (!header || header->base_offset < start_ || header->size() <= size_ - position) return;
    if (header->is_message() && header->base_offset - start_ > most_offsets) return;  // zeros and chance make many of them
    auto summed = position + static_cast<std::int64_t>(format::checksum_start(*header));
    std::uint32_t sum = 0;
    for (int bit = 30; bit >= 0; --bit) {  // the shortest first
      auto other = *header;
      other.batch_length &= ~(1 << bit);
      const auto behind = position + other.size();
      if (other.batch_length == header->batch_length || format::header_fault(other) != nullptr || behind > size_) continue;
      sum = extend_in_pieces(content_, other, sum, summed, behind);
      summed = behind;
      if (sum != header->crc) continue;
      at_ = behind;
      return;
    }
    in_prefix_ = true;
  }

  // A header has its magic byte at a fixed distance: jumps from one such byte to the next.
  bool to_next_header() {
    while (at_ <= size_ - least_bytes) {
      const auto bytes = sweep_.view(at_, batch_header_size);
      if (bytes.size() < format::min_message_size) return false;
      const auto places = bytes.size() - format::min_message_size + 1;
      const auto at = next_place(bytes, places);
      at_ += static_cast<std::int64_t>(at);
      if (at < places) return true;
      if (bytes.back() == 0) skip_hole();
    }
    return false;
  }

  // Of a file with a large one: zeros, where no header begins, but for the last bytes.
  void skip_hole() {
    const auto end = std::min(file_.end_of_hole(at_), size_) - static_cast<std::int64_t>(batch_header_size);
    if (end - at_ >= worth_skipping) at_ = end;
  }

  // The first of the first `places` bytes where a header may begin; at least `places` if there is none.
  std::size_t next_place(std::span<const char> bytes, std::size_t places) const {
    for (std::size_t at = 0;;) {
      at = next_magic(bytes.data() + format::field::magic, at, places);
      if (at >= places || bytes[at + format::field::magic] == 2) return at;
      if (may_be_message(bytes.data() + at)) return at;
      at += 1 + zeros_behind_length(bytes.subspan(at));
    }
  }

  // Many bytes at a time: few of those in text, or in what is compressed, are as small.
  static std::size_t next_magic(const char* magic, std::size_t at, std::size_t end) {
    constexpr std::size_t step = 16;
    while (at + step <= end) {
      unsigned small = 0;
      for (std::size_t i = 0; i < step; ++i) small |= static_cast<unsigned char>(magic[at + i]) <= 2 ? 1u : 0u;
      if (small != 0) break;
      at += step;
    }
    while (at < end && static_cast<unsigned char>(magic[at]) > 2) ++at;
    return at;
  }

  bool may_be_message(const char* bytes) const {
    const auto offset = load_big_endian<std::int64_t>(bytes + format::message_field::offset);
    const auto length = load_big_endian<std::int32_t>(bytes + format::message_field::size);
    return offset >= start_.value && offset - start_.value <= 2 * most_offsets && length >= 0 &&
           length + static_cast<std::int64_t>(format::batch_prefix_size) >= least_bytes;
  }

  // Where the length is zero, as anywhere in what was preallocated, there is no header: so many places need no look.
  static std::size_t zeros_behind_length(std::span<const char> bytes) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    auto rest = bytes.subspan(format::field::batch_length);
    std::size_t zeros = 0;
    for (; rest.size() >= word && load_big_endian<std::uint64_t>(rest.data()) == 0; rest = rest.subspan(word)) zeros += word;
    return zeros < word ? 0 : zeros - sizeof(std::int32_t);
  }

  // If a whole batch stands here, goes on behind it.
  bool take_batch() {
    const auto header = header_at(at_);
    if (!header || header->base_offset < expected_) return false;
    const bool gap = header->base_offset > expected_;
    // As BatchScanner has it: a gap wider than a segment's 31 bits is none, nor is one that the next batch denies.
    if (gap && header->last_offset() - expected_ > most_offsets) return false;
    if (!is_sound(*header, at_)) return false;
    const auto behind = at_ + header->size();
    if (expected_ == start_) chain_start_ = at_;
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
    if (header.is_message() && !adds_up(header, position)) return false;
    if (summed_at_ != position || summed_size_ != header.size()) {
      budget_ -= header.size();
      auto& window = header.size() < static_cast<std::int64_t>(window_bytes) ? sweep_ : content_;
      sound_ = checksum_in_pieces(window, header, position) == header.crc;
      summed_at_ = position;
      summed_size_ = header.size();
    }
    return sound_;
  }

  // Many bytes look like the header of a message of format v0 or v1: numbers, say. That key and value fill its length is rare,
  // and cheaper to tell than the checksum.
  bool adds_up(const BatchHeader& header, std::int64_t position) {
    const auto end = position + header.size();
    auto at = position + static_cast<std::int64_t>(format::header_size_of(static_cast<char>(header.magic)));
    for (int part = 0; part < 2; ++part) {
      char length[sizeof(std::int32_t)];
      if (end - at < static_cast<std::int64_t>(sizeof length) || file_.read_at(length, at) < sizeof length) return false;
      at += static_cast<std::int64_t>(sizeof length) + std::max(0, load_big_endian<std::int32_t>(length));
    }
    return at == end;
  }

  const os::File& file_;
  Window sweep_;
  Window content_;
  std::int64_t size_;
  std::int64_t budget_;  // bytes
  std::int64_t at_;
  Offset start_;
  Offset expected_;
  bool in_prefix_ = false;
  std::optional<std::int64_t> whole_end_;
  std::optional<Offset> end_;
  std::int64_t chain_start_ = -1;
  std::int64_t chain_end_ = -1;
  std::int64_t summed_at_ = -1;
  std::int64_t summed_size_ = 0;
  bool sound_ = false;
};

// Of a batch that ends with the file, with one flipped bit in its header: the checksum tells what its last offset delta was.
std::optional<std::int64_t> offsets_of_damaged(const os::File& file, std::int64_t position,
                                               std::array<char, batch_header_size> bytes) {
  bytes[format::field::magic] = 2;
  Window window(file, window_bytes, false);
  const auto is_right = [&] {
    const auto header = format::read_batch_header(bytes);
    const auto sum = format::extend_checksum(header, 0, std::span<const char>(bytes).subspan(format::field::attributes));
    return extend_in_pieces(window, header, sum, position + std::ssize(bytes), file.size()) == header.crc;
  };
  const auto offsets = [&] {
    return std::max(std::int64_t{1}, format::read_batch_header(bytes).last_offset_delta + std::int64_t{1});
  };
  const auto header = format::read_batch_header(bytes);
  const bool is_likely =
      header.record_count == header.last_offset_delta + std::int64_t{1} && header.record_count <= header.batch_length;
  if (is_likely || is_right()) return offsets();
  for (const auto at : {format::field::last_offset_delta, format::field::record_count}) {
    for (std::size_t bit = 0; bit < 8 * sizeof(std::int32_t); ++bit) {
      auto& byte = bytes[at + bit / 8];
      const auto as_it_is = byte;
      byte = static_cast<char>(byte ^ 1 << bit % 8);
      if (is_right()) return offsets();
      byte = as_it_is;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Offset> end_of_chain_behind(const os::File& file, std::int64_t position, Offset expected) {
  return Search(file, position, expected).run();
}

std::optional<std::int64_t> first_batch_behind(const os::File& file, std::int64_t position, Offset expected) {
  return Search(file, position, expected).first();
}

std::optional<std::int64_t> first_of_any_behind(const os::File& file, std::int64_t position, Offset expected) {
  const auto going_on = first_batch_behind(file, position, expected);
  const Offset least{std::max(expected.value - most_offsets, std::int64_t{0})};
  Search search(file, position, least);
  const auto found = search.first_leading_to(going_on.value_or(search.size()));
  return found ? found : going_on;
}

std::optional<Offset> next_behind_last(const os::File& file, std::int64_t position, Offset expected) {
  std::array<char, batch_header_size> bytes;
  const auto got = std::span<const char>(bytes).first(file.read_at(bytes, position));
  const auto header = format::read_whole_header(got);
  if (!header || header->batch_length == 0) return std::nullopt;  // nothing was written there
  const auto rest = file.size() - position;
  if (header->size() != rest && Search(file, position, {}).end_of_whole() != file.size()) return std::nullopt;
  const bool is_held = got.size() == batch_header_size && rest <= most_summed;
  const auto offsets = is_held ? offsets_of_damaged(file, position, bytes) : std::nullopt;
  const bool is_wrapper = !offsets && header->is_wrapper() && header->last_offset() >= expected;
  const auto said = is_wrapper ? std::min(header->last_offset() - expected, rest) + 1 : 1;  // a wrapper says its last offset only
  // What is wrong is elsewhere in the batch; a compaction may have left a hole in front of it.
  const bool is_behind_hole =
      header->magic == 2 && header->base_offset >= expected && header->base_offset - expected <= most_offsets;
  const auto first = is_behind_hole ? header->base_offset : expected;
  return first + std::min(offsets.value_or(said), std::numeric_limits<std::int64_t>::max() - first.value);
}

std::int64_t end_of_damage(const os::File& file, std::int64_t position, Offset expected) {
  Search search(file, position, expected);
  if (const auto& end = search.end_of_whole()) return *end;
  if (const auto end = search.extent(position)) return *end;
  return std::max(position, search.first().value_or(search.size()));
}

}  // namespace partlog::log

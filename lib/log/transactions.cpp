#include "log/transactions.h"

#include <algorithm>
#include <array>

#include "base/byte_order.h"
#include "partlog/error.h"

namespace partlog::log {

namespace {

constexpr std::size_t most_remembered = 1 << 20;  // some 100 MiB

// Kafka's ControlRecordType: the key is an int16 version and an int16 type.
constexpr std::size_t type_at = 2;
constexpr std::size_t least_key = 4;
enum MarkerType : std::int16_t { abort_marker = 0, commit_marker = 1 };

// A marker is a batch of one small record: of 78 bytes so far.
constexpr std::int64_t least_marker = 78;
constexpr std::int64_t most_marker = 128;

// Not if all of it was one batch of another size. A length that leads to the next sound batch is believed.
bool may_hold_marker(const LostRange& range) {
  if (range.first == range.next) return false;
  const auto size = range.end - range.position;
  if (size <= 0) return true;
  std::array<char, format::batch_header_size> bytes;
  std::size_t got = 0;
  try {
    got = os::File::open(range.path, os::File::Mode::read).read_at(bytes, range.position.value);
  } catch (const Error&) {
    return true;  // the segment is gone
  }
  const auto header = format::read_whole_header(std::span<const char>(bytes).first(got));
  if (!header || header->size() != size) return true;
  return size >= least_marker && size <= most_marker;
}

}  // namespace

Transactions::Transactions(PartitionDirectory directory, const ReaderOptions& options)
    : ahead_(std::move(directory), options.window_bytes) {
  ahead_.set_largest_batch(options.largest_batch);
  ahead_.hold_no_large_batches();  // markers are small
  if (!options.pass_over) return;
  ahead_.pass_over_damage([this, tell = options.pass_over](const LostRange& range) {
    tell(range);
    take_loss(range);
  });
}

void Transactions::start_at(Offset offset) {
  started_ = true;
  start_ = read_to_ = offset;
  ahead_.seek(offset);
  open_.clear();
  not_committed_.clear();
}

Transactions::Fate Transactions::fate_of(const format::BatchHeader& batch) {
  const auto offset = batch.base_offset;
  if (!started_ || offset < start_ || offset > read_to_) start_at(offset);
  while (is_undecided(batch.producer_id, offset)) {
    if (!read_on() && is_undecided(batch.producer_id, offset)) return Fate::open;
    if (open_.size() + not_committed_.size() > most_remembered) forget_below(offset);
  }
  const auto ended = not_committed_.lower_bound({batch.producer_id, offset});
  const bool is_inside =
      ended != not_committed_.end() && ended->first.first == batch.producer_id && ended->second.first <= offset;
  return is_inside ? ended->second.fate : Fate::committed;
}

bool Transactions::is_undecided(ProducerId producer, Offset offset) const {
  if (offset >= read_to_) return true;
  const auto open = open_.find(producer);
  return open != open_.end() && open->second <= offset;
}

// One batch; false at the end of the log.
bool Transactions::read_on() {
  if (!ahead_.next()) {
    read_to_ = std::max(read_to_, ahead_.position());  // behind damage
    return false;
  }
  const auto& header = ahead_.header();
  read_to_ = header.next_offset();
  ahead_.advance(read_to_);
  if (!header.is_transactional()) return true;
  if (header.is_control()) {
    take_marker(header.producer_id, header.last_offset());
  } else {
    open_.try_emplace(header.producer_id, header.base_offset);
  }
  return true;
}

bool Transactions::look_ahead() {
  const auto open_before = open_.size();
  ahead_.look_ahead();
  read_to_ = std::max(read_to_, ahead_.position());
  return open_.size() < open_before;
}

void Transactions::take_marker(std::int64_t producer, Offset offset) {
  if (ahead_.batch().empty()) return;  // far larger than any marker
  format::RecordDecoder decoder;
  std::array<Record, 1> record;
  decoder.start(ahead_.header(), ahead_.batch());
  if (decoder.decode(record) == 0 || record[0].key.is_null() || record[0].key.size() < least_key) return;
  const auto type = load_big_endian<std::int16_t>(record[0].key.data() + type_at);
  if (type != abort_marker && type != commit_marker) return;
  const auto open = open_.find(producer);
  if (open == open_.end()) return;
  if (type == abort_marker) not_committed_.emplace(std::pair(producer, offset), Ended{open->second, Fate::aborted});
  open_.erase(open);
}

void Transactions::take_loss(const LostRange& range) {
  if (!may_hold_marker(range)) return;
  for (const auto& [producer, first] : open_) {
    not_committed_.emplace(std::pair(producer, range.first), Ended{first, Fate::lost});
  }
  open_.clear();
}

void Transactions::forget_below(Offset offset) {
  std::erase_if(not_committed_, [&](const auto& entry) { return entry.first.second < offset; });
  if (open_.size() + not_committed_.size() <= most_remembered) return;
  throw Error(ErrorCode::refused, ahead_.directory().path() + ": more than " + std::to_string(most_remembered) +
                                      " transactions are open or aborted behind offset " + std::to_string(offset.value) +
                                      "; to read all records, committed or not: --isolation uncommitted");
}

}  // namespace partlog::log

#include "log/transactions.h"

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

}  // namespace

Transactions::Transactions(PartitionDirectory directory, std::size_t window_bytes, bool pass_over_damage)
    : ahead_(std::move(directory), window_bytes) {
  if (pass_over_damage) ahead_.pass_over_damage([](const LostRange&) {});
}

void Transactions::start_at(Offset offset) {
  started_ = true;
  start_ = read_to_ = offset;
  ahead_.seek(offset);
  open_.clear();
  aborted_.clear();
}

Transactions::Fate Transactions::fate_of(const format::BatchHeader& batch) {
  const auto offset = batch.base_offset;
  if (!started_ || offset < start_ || offset > read_to_) start_at(offset);
  for (;;) {
    const auto open = open_.find(batch.producer_id);
    if (offset < read_to_ && (open == open_.end() || offset < open->second)) break;
    if (!read_on()) return Fate::open;
    if (open_.size() + aborted_.size() > most_remembered) forget_below(offset);
  }
  const auto aborted = aborted_.lower_bound({batch.producer_id, offset});
  const bool is_inside = aborted != aborted_.end() && aborted->first.first == batch.producer_id && aborted->second <= offset;
  return is_inside ? Fate::aborted : Fate::committed;
}

// One batch; false at the end of the log.
bool Transactions::read_on() {
  if (!ahead_.next()) return false;
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

void Transactions::take_marker(std::int64_t producer, Offset offset) {
  format::RecordDecoder decoder;
  std::array<Record, 1> record;
  decoder.start(ahead_.header(), ahead_.batch());
  if (decoder.decode(record) == 0 || record[0].key.is_null() || record[0].key.size() < least_key) return;
  const auto type = load_big_endian<std::int16_t>(record[0].key.data() + type_at);
  if (type != abort_marker && type != commit_marker) return;
  const auto open = open_.find(producer);
  if (open == open_.end()) return;
  if (type == abort_marker) aborted_.emplace(std::pair(producer, offset), open->second);
  open_.erase(open);
}

void Transactions::forget_below(Offset offset) {
  std::erase_if(aborted_, [&](const auto& entry) { return entry.first.second < offset; });
  if (open_.size() + aborted_.size() <= most_remembered) return;
  throw Error(ErrorCode::refused, ahead_.directory().path() + ": more than " + std::to_string(most_remembered) +
                                      " transactions are open or aborted behind offset " + std::to_string(offset.value) +
                                      "; to read all records, committed or not: --isolation uncommitted");
}

}  // namespace partlog::log

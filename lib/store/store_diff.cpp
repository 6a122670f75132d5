#include "partlog/store_diff.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/time_text.h"
#include "partlog/error.h"
#include "partlog/reader.h"

namespace partlog {

namespace {

constexpr const char* present = "present";
constexpr int most_looks = 100;  // at a topic that changes all the time

std::optional<std::string> presence(bool there) { return there ? std::optional<std::string>(present) : std::nullopt; }

std::optional<std::string> time_text(Timestamp time) {
  return time == no_timestamp ? std::nullopt : std::optional(iso_time(time));
}

bool is_same(const std::optional<Topic>& one, const std::optional<Topic>& other) {
  if (!one || !other) return !one && !other;
  const auto& settings = TopicConfig::definitions();
  return one->id == other->id && std::all_of(settings.begin(), settings.end(), [&](const auto& setting) {
           return one->config.get(setting.name) == other->config.get(setting.name);
         });
}

bool equal(HeaderBlock one, HeaderBlock other) {
  if (one.count != other.count) return false;
  if (one.size == other.size && (one.size == 0 || std::memcmp(one.data, other.data, one.size) == 0)) return true;
  HeaderCursor left(one);
  HeaderCursor right(other);
  Header a;
  Header b;
  while (left.next(a) && right.next(b)) {
    if (a.name != b.name || a.value != b.value) return false;
  }
  return true;
}

// The records of one side below a limit, one at a time.
class Records {
 public:
  Records(const Store& store, const Topic& topic, int partition) : reader_(store, topic, partition) {}

  Offset start() const { return reader_.start(); }
  Offset end() { return reader_.end(); }
  void seek(Offset offset) {
    reader_.seek(offset);
    records_ = {};
  }

  // nullptr: no other below the limit.
  const Record* peek(Offset limit) {
    if (records_.empty()) records_ = reader_.read(limit);
    return records_.empty() ? nullptr : records_.data();
  }
  void take() { records_ = records_.subspan(1); }
  std::int32_t epoch() const { return reader_.leader_epoch(); }

 private:
  PartitionReader reader_;
  std::span<const Record> records_;
};

}  // namespace

class PartitionDiff {
 public:
  PartitionDiff(StoreDiff& diff, const Topic& left, const Topic& right, int number)
      : diff_(diff), topic_(left.name), number_(number), left_(diff.left_, left, number), right_(diff.right_, right, number) {}

  void run() {
    compare_ends();
    try {
      while (!compare_records()) {
      }
    } catch (...) {
      for (auto& row : rows_) finish(row);
      throw;
    }
    for (auto& row : rows_) finish(row);
  }

 private:
  // What differs in records, row by row.
  enum Field { record, timestamp, key, value, headers, leader_epoch, fields };
  static constexpr std::array<const char*, fields> names = {"record", "timestamp", "key", "value", "headers", "leader_epoch"};
  struct Row {
    bool open = false;
    bool is_in_left = false;
    std::uint64_t seen = 0;  // when the last one was
    std::uint64_t number = 0;
    Offset last;
  };

  // They only rise: with one look at the right between two at the left it is known whether they differed at the time of one of
  // the first two. What lies between the two looks at the left did not, for all that can be told: a log is never unlike itself.
  void compare_ends() {
    const auto start = left_.start();
    const auto end = left_.end();
    const auto right_start = right_.start();
    const auto right_end = right_.end();
    const auto start_then = left_.start();
    const auto end_then = left_.end();
    from_ = std::max(start_then, right_start);
    limit_ = std::min(end_then, right_end);
    if (diff_.options_.common_range) return;
    tell_ends("start_offset", start, right_start, start_then);
    tell_ends("end_offset", end, right_end, end_then);
  }

  void tell_ends(const char* field, Offset left, Offset right, Offset left_then) {
    if (left <= right && right <= left_then) return;
    const auto told = left > right ? left : left_then;
    diff_.tell({topic_, number_, {}, {}, field, std::to_string(told.value), std::to_string(right.value)});
  }

  // False: the log start has passed us by, and all is set to go on from there.
  bool compare_records() {
    left_.seek(from_);
    right_.seek(from_);
    try {
      while (diff_.options_.stop == nullptr || !*diff_.options_.stop) {
        if (!compare_next()) return true;
      }
      return true;
    } catch (const Error& error) {
      const auto start = std::max(left_.start(), right_.start());
      if (error.code() != ErrorCode::offset_out_of_range || start <= from_) throw;
      from_ = start;
      return from_ >= limit_;
    }
  }

  bool compare_next() {
    if (from_ >= limit_) return false;
    const Record* left = left_.peek(limit_);
    const Record* right = right_.peek(limit_);
    if (left == nullptr && right == nullptr) return false;
    const auto offset = left == nullptr                ? right->offset
                        : right == nullptr             ? left->offset
                        : left->offset < right->offset ? left->offset
                                                       : right->offset;
    ++diff_.records_;
    const bool in_left = left != nullptr && left->offset == offset;
    const bool in_right = right != nullptr && right->offset == offset;
    if (in_left && in_right) {
      compare(*left, *right);
    } else {
      differs(record, offset, presence(in_left), presence(in_right));
    }
    if (in_left) left_.take();
    if (in_right) right_.take();
    from_ = offset + 1;
    return true;
  }

  void compare(const Record& left, const Record& right) {
    if (left.timestamp != right.timestamp) {
      differs(timestamp, left.offset, time_text(left.timestamp), time_text(right.timestamp));
    }
    if (left.key != right.key) differs(key, left.offset, {}, {});
    if (left.value != right.value) differs(value, left.offset, {}, {});
    if (!equal(left.headers, right.headers)) differs(headers, left.offset, {}, {});
    if (diff_.options_.epochs && left_.epoch() != right_.epoch()) {
      differs(leader_epoch, left.offset, std::to_string(left_.epoch()), std::to_string(right_.epoch()));
    }
  }

  void differs(Field field, Offset offset, std::optional<std::string> left, std::optional<std::string> right) {
    auto& row = rows_[field];
    const bool goes_on = row.open && row.seen + 1 == diff_.records_ && (field != record || row.is_in_left == left.has_value());
    if (!goes_on) {
      finish(row);
      row.open = true;
      row.is_in_left = left.has_value();
      row.number = diff_.tell({topic_, number_, offset, offset, names[field], std::move(left), std::move(right)});
    }
    row.last = offset;
    row.seen = diff_.records_;
  }

  void finish(Row& row) {
    if (std::exchange(row.open, false) && diff_.options_.ended) diff_.options_.ended(row.number, row.last);
  }

  StoreDiff& diff_;
  std::string topic_;
  int number_;
  Records left_;
  Records right_;
  Offset from_;
  Offset limit_;
  std::array<Row, fields> rows_;
};

StoreDiff::StoreDiff(const Store& left, const Store& right, DiffOptions options)
    : left_(left), right_(right), options_(std::move(options)) {}

void StoreDiff::topic(const std::string& name) {
  auto left = left_.find_topic(name);
  auto right = right_.find_topic(name);
  // What both are at one moment: somebody may be making, altering or removing it.
  auto then = left_.find_topic(name);
  for (int looks = 1; looks < most_looks && !is_same(left, then); ++looks) {
    left = std::move(then);
    right = right_.find_topic(name);
    then = left_.find_topic(name);
  }
  if (!left || !right) {
    if (left || right) tell({name, {}, {}, {}, "topic", presence(left.has_value()), presence(right.has_value())});
    return;
  }
  if (left->partitions != right->partitions) {
    tell({name, {}, {}, {}, "partitions", std::to_string(left->partitions), std::to_string(right->partitions)});
  }
  if (!options_.configs) return;
  for (const auto& definition : TopicConfig::definitions()) {
    const auto one = left->config.get(definition.name);
    const auto other = right->config.get(definition.name);
    if (one != other) tell({name, {}, {}, {}, "config " + std::string(definition.name), one, other});
  }
}

void StoreDiff::partition(const Topic& left, const Topic& right, int number) { PartitionDiff(*this, left, right, number).run(); }

std::uint64_t StoreDiff::tell(const Difference& difference) {
  if (options_.found) options_.found(difference);
  return differences_++;
}

}  // namespace partlog

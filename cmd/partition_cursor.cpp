#include "partition_cursor.h"

#include <algorithm>
#include <utility>

#include "messages.h"
#include "text.h"
#include "topic_commands.h"

namespace partlog::cmd {

PartitionCursor::PartitionCursor(const Store& store, const std::shared_ptr<const Topic>& topic, int partition,
                                 const Options& options)
    : PartitionCursor(
          topic->name + ":" + std::to_string(partition), topic, PartitionName{topic->name, partition},
          [&store, topic, partition](const ReaderOptions& reading) { return PartitionReader(store, *topic, partition, reading); },
          options, &store) {}

PartitionCursor::PartitionCursor(const std::string& path, const Options& options)
    : PartitionCursor(
          path, nullptr, partition_name(path), [path](const ReaderOptions& reading) { return PartitionReader(path, reading); },
          options, nullptr) {}

PartitionCursor::PartitionCursor(std::string name, std::shared_ptr<const Topic> topic, const std::optional<PartitionName>& origin,
                                 Open open, const Options& options, const Store* store)
    : store_(store),
      name_(std::move(name)),
      topic_(std::move(topic)),
      origin_(origin.value_or(PartitionName{{}, -1})),
      open_(std::move(open)),
      options_(options),
      bounded_(!options.follow) {
  const auto put_off = [this](auto& tell) {
    if (!tell) return;
    tell = [told = told_, now = std::move(tell)](const auto& what) { told->is_later ? void(told->any = true) : now(what); };
  };
  put_off(options_.reader.notice);
  put_off(options_.reader.pass_over);
  stable_ = reader().stable_end();  // before the end: the log grows meanwhile
  if (store != nullptr || options.follow) {
    last_end();
  } else {
    reader().end_here();
  }
  first_ = resolve(options.start);
  seek(first_);
  release_memory();
}

void tell_if_shortened(const std::optional<Offset>& stable, Offset end, const Store* store, const std::string& name) {
  if (!stable || end >= *stable) return;
  const auto check = store != nullptr ? command_for(*store, "verify " + name) : "partlog verify " + shell_word(name);
  notice(name + ": the log ends at " + std::to_string(end.value) + ", below its recovery point " + std::to_string(stable->value) +
         ": " + offsets_are(end, *stable - 1) + " gone; " + check + " tells more");
}

void PartitionCursor::set_end(Offset end) {
  end_ = end;
  tell_if_shortened(stable_, end, store_, name_);
}

Offset PartitionCursor::last_end() {
  if (!end_) set_end(reader().end());
  return *end_;
}

PartitionReader& PartitionCursor::reader() {
  if (!reader_) {
    reader_.emplace(open_(options_.reader));
    reader_->seek(position_);
  }
  return *reader_;
}

void PartitionCursor::release() {
  if (reader_) position_ = reader_->position();
  reader_.reset();
}

// A reader tells of some things once.
void PartitionCursor::tell_now() {
  told_->is_later = false;
  if (std::exchange(told_->any, false)) release();
}

void PartitionCursor::abandon() {
  done_ = true;
  release();
}

void PartitionCursor::seek(Offset offset) {
  reader().seek(offset);
  next_ = offset;
}

void PartitionCursor::rewind(Offset offset) {
  seek(offset);
  done_ = false;
}

void PartitionCursor::follow_on() {
  if (options_.follow) bounded_ = false;
}

Offset PartitionCursor::resolve(const StartPoint& start) {
  const Offset log_start = reader().start();
  switch (start.kind) {
    case StartPoint::Kind::beginning:
      break;
    case StartPoint::Kind::end:
      return last_end();
    case StartPoint::Kind::offset:
      if (start.number >= log_start.value && start.number <= last_end().value) return {start.number};
      throw Error(ErrorCode::offset_out_of_range, name_ + ": offset " + std::to_string(start.number) +
                                                      " is not in the log, which goes from " + std::to_string(log_start.value) +
                                                      " to " + std::to_string(last_end().value));
    case StartPoint::Kind::stored:
      return {start.number};
    case StartPoint::Kind::back_from_end:
      return std::max(log_start, start.number < last_end().value ? last_end() - start.number : Offset{0});
    case StartPoint::Kind::time:
      since_ = Timestamp{start.number};
      return reader().offset_at(*since_, last_end()).value_or(last_end());
  }
  return log_start;
}

void PartitionCursor::apply_until() {
  bounded_ = true;
  if (!options_.until) return;
  auto stop = reader().offset_at(*options_.until, last_end());
  if (stop && *stop < first_) {  // an earlier record is later in time: look for ourselves
    stop.reset();
    seek(first_);
    for (auto records = reader().read(end_); !records.empty() && !stop; records = reader().read(end_)) {
      auto late = std::find_if(records.begin(), records.end(), [&](const Record& r) { return r.timestamp >= *options_.until; });
      if (late != records.end()) stop = late->offset;
    }
  }
  if (stop) {
    end_ = *stop;
    options_.follow = false;
  }
  seek(first_);
}

std::span<const Record> PartitionCursor::read() {
  std::span<const Record> records;
  while (!done_) {
    try {
      records = reader().read(bounded_ ? end_ : std::nullopt);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::offset_out_of_range || !go_on_at_log_start()) throw;
      continue;
    }
    next_ = reader().position();
    if (records.empty()) {
      const bool ends = bounded_ && !options_.follow;
      if (ends && look_at_end()) continue;
      if (ends && !end_) set_end(next_);
      if (ends) abandon();
      break;
    }
    if (since_) {
      auto begin = std::find_if(records.begin(), records.end(), [&](const Record& r) { return r.timestamp >= *since_; });
      if (begin == records.end()) continue;
      records = {begin, records.end()};
      since_.reset();
    }
    if (options_.until) {
      auto end = std::find_if(records.begin(), records.end(), [&](const Record& r) { return r.timestamp >= *options_.until; });
      done_ = end != records.end();
      if (done_) next_ = end->offset;
      records = {records.begin(), end};
    }
    break;
  }
  return records;
}

std::span<const Record> PartitionCursor::read(Outcome& outcome) {
  try {
    return read();
  } catch (const Error& error) {
    outcome.fail(error);
    abandon();
    return {};
  }
}

// What lies below the log start is gone; by the user's choice that is an error. False if that is not the reason.
bool PartitionCursor::go_on_at_log_start() {
  const Offset log_start = reader().start();
  const Offset lost_from = reader().position();
  if (lost_from >= log_start) return false;
  const bool fails = options_.reset == Reset::fail;
  const Offset target = options_.reset != Reset::latest ? log_start : bounded_ ? std::max(last_end(), log_start) : reader().end();
  const auto message = name_ + ": " + counted(static_cast<std::uint64_t>(target - lost_from), "record") +
                       (fails ? " lost, " : " not read, ") + offsets_text(lost_from, target - 1) + ": the log now starts at " +
                       std::to_string(log_start.value);
  if (fails) throw Error(ErrorCode::offset_out_of_range, message + ", and --reset is fail" + options_.lost_hint);
  notice(message);
  seek(target);
  return true;
}

// Whoever follows waits for the end of the transaction, or finds the damage. True: there is more to read, as damage that was
// passed over decides.
bool PartitionCursor::look_at_end() {
  const bool was_held_back = reader().held_back().has_value();
  reader().look_ahead();
  const auto from = reader().held_back();
  if (from) tell_held_back(*from);
  return was_held_back && !from;
}

bool PartitionCursor::end_where_held_back() {
  if (const auto from = reader().held_back(); !from || *from >= last_end()) return false;
  if (!options_.follow) reader().look_ahead();
  if (const auto from = reader().held_back()) {
    end_ = *from;
    if (!options_.follow) tell_held_back(*from);
  }
  return true;
}

void PartitionCursor::tell_held_back(Offset from) {
  if (std::exchange(told_held_back_, from) == from) return;
  notice(name_ + ": not read from offset " + std::to_string(from.value) +
         " on, where a transaction begins that is neither committed nor aborted; --isolation uncommitted reads it");
}

Origin PartitionCursor::origin() {
  return {origin_.topic, origin_.partition, reader().leader_epoch(), reader().timestamp_type()};
}

}  // namespace partlog::cmd

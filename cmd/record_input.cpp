#include "record_input.h"

#include <algorithm>

#include "text.h"

namespace partlog::cmd {
namespace {

// How much of a line that is too long is read on for to tell its size.
constexpr std::uint64_t counted_beyond_limit = 64 << 20;
// JSON writes a byte as up to six characters, and names the fields.
constexpr std::size_t json_expansion = 6;
constexpr std::size_t json_overhead = 64 << 10;
constexpr std::size_t most_json = std::numeric_limits<std::uint32_t>::max();  // that its parser can count

bool is_plain(const InputFormat& f) {
  return !f.key_delimiter && !f.crlf && !f.skip_empty && !f.empty_is_null && !f.null_marker && !f.json && f.skip == 0 &&
         f.count == std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

RecordInput::RecordInput(InputFormat format)
    : format_(std::move(format)),
      plain_(is_plain(format_)),
      splitter_(format_.delimiter),
      left_(format_.count),
      to_skip_(format_.skip) {
  for (const auto& [name, value] : format_.headers) headers_.add(name, value ? Bytes(*value) : Bytes());
  Record model;
  model.headers = headers_.block();
  model.timestamp = format_.timestamp;
  give_default_key(model);
  records_.fill(model);
  partitions_.fill(-1);
  if (format_.json) json_.resize(most);
}

void RecordInput::begin_file(std::string name) {
  file_ = std::move(name);
  at_end_of_file_ = false;
  line_ = 0;
}

void RecordInput::begin_block(std::span<char> text) {
  begin_file({});
  splitter_.look_at(text);
  all_given_ = 0;
}

void RecordInput::pass_over(std::uint64_t lines, std::uint64_t records) {
  line_ += lines;
  all_given_ += records;
}

std::span<const Record> RecordInput::next() {
  given_ = 0;
  if (!failure_) fill();
  all_given_ += given_;
  if (given_ == 0 && failure_) throw Error(ErrorCode::refused, *failure_);
  return {records_.data(), given_};
}

void RecordInput::fill() {
  std::string_view piece;
  if (plain_ && dropped_ == 0) {
    while (given_ < most && splitter_.next(piece)) {
      if (piece.size() > format_.limit) [[unlikely]] {
        failure_ = too_long(piece.size(), true);
        return;
      }
      records_[given_].value = piece;
      sizes_[given_] = static_cast<std::uint32_t>(piece.size() + format_.delimiter.size());
      lines_[given_++] = ++line_;
    }
  }
  bool delimited;
  while (given_ < most && left_ > 0 && !failure_ && next_piece(piece, delimited)) accept(piece, delimited);
}

// A piece that is complete: its delimiter or the end of the file has come. Drops what is too long, and sets failure_.
bool RecordInput::next_piece(std::string_view& piece, bool& delimited) {
  delimited = splitter_.next(piece);
  if (!delimited) {
    piece = splitter_.pending();
    bool is_record = !piece.empty() || dropped_ > 0 || (format_.delimiter.empty() && line_ == 0);
    if (!at_end_of_file_ || !is_record) {
      // At its end may stand the start of a delimiter: what is dropped is too long without that.
      if (piece.size() > piece_limit() + format_.delimiter.size()) dropped_ += splitter_.drop_pending(true);
      if (dropped_ > piece_limit() + counted_beyond_limit) failure_ = too_long(dropped_, false);
      return false;
    }
    splitter_.drop_pending(false);
  }
  ++line_;
  if (dropped_ + piece.size() <= piece_limit()) return true;
  --line_;
  failure_ = too_long(dropped_ + piece.size(), true);
  return false;
}

void RecordInput::accept(std::string_view piece, bool delimited) {
  std::uint64_t size = piece.size() + (delimited ? format_.delimiter.size() : 0) + uncounted_bytes_;
  if (format_.crlf && delimited && piece.ends_with('\r')) piece.remove_suffix(1);
  if (format_.skip_empty && piece.empty()) {
    uncounted_bytes_ = size;
    return;
  }
  uncounted_bytes_ = 0;
  if (to_skip_ > 0) {
    --to_skip_;
    ++skipped_.records;
    skipped_.bytes += size;
    return;
  }
  Record& record = records_[given_];
  if (std::optional<std::string> wrong = format_.json ? parse_json(piece, record) : parse(piece, record)) {
    failure_ = place_of(line_) + *wrong;
    return;
  }
  constexpr std::uint64_t most_bytes = std::numeric_limits<std::uint32_t>::max();
  sizes_[given_] = static_cast<std::uint32_t>(std::min(size, most_bytes));
  uncounted_bytes_ = size - sizes_[given_];
  lines_[given_++] = line_;
  --left_;
}

std::optional<std::string> RecordInput::parse(std::string_view piece, Record& record) {
  auto bytes = [&](std::string_view text) {
    bool null = (format_.empty_is_null && text.empty()) || (format_.null_marker && text == *format_.null_marker);
    return null ? Bytes() : Bytes(text);
  };
  record.key = Bytes();
  if (format_.key_delimiter) {
    std::size_t at = piece.find(*format_.key_delimiter);
    if (at != std::string_view::npos) {
      record.key = bytes(piece.substr(0, at));
      piece.remove_prefix(at + format_.key_delimiter->size());
    } else if (!format_.lenient) {
      return " has no key delimiter (--lenient would make it a record without key)";
    }
  }
  record.value = bytes(piece);
  give_default_key(record);
  return std::nullopt;
}

std::optional<std::string> RecordInput::parse_json(std::string_view line, Record& record) {
  JsonRecord& json = json_[given_];
  if (auto error = parse_json_record(splitter_.in_place(line), json))
    return ", column " + std::to_string(error->column) + ": " + error->message;
  constexpr std::int64_t most_partitions = std::numeric_limits<std::int32_t>::max();
  // -1 is a partition still to be chosen.
  if (format_.keep_partition && json.partition && (*json.partition < -1 || *json.partition > most_partitions)) {
    return ", column " + std::to_string(json.partition_column) + ": partition " + std::to_string(*json.partition) +
           " is out of range";
  }
  for (const auto& [name, value] : format_.headers) json.headers.add(name, value ? Bytes(*value) : Bytes());
  record.key = json.key;
  record.value = json.value;
  record.headers = json.headers.block();
  record.timestamp = json.timestamp == no_timestamp ? format_.timestamp : json.timestamp;
  std::int64_t partition = json.partition.value_or(-1);
  partitions_[given_] = static_cast<std::int32_t>(std::clamp<std::int64_t>(partition, -1, most_partitions));
  give_default_key(record);
  return std::nullopt;
}

void RecordInput::give_default_key(Record& record) const {
  if (record.key.is_null() && format_.key) record.key = Bytes(*format_.key);
}

std::size_t RecordInput::piece_limit() const {
  std::size_t keyed = format_.limit + (format_.key_delimiter ? format_.key_delimiter->size() : 0) + format_.crlf;
  return format_.json ? std::min(format_.limit * json_expansion + json_overhead, most_json) : keyed;
}

std::string RecordInput::too_long(std::uint64_t size, bool ended) const {
  return place_of(line_ + 1) + " has " + (ended ? "" : "more than ") + std::to_string(size) +
         " bytes, too many for a record of at most " + std::to_string(format_.limit) + " bytes (max.message.bytes)";
}

std::string RecordInput::place_of(std::uint64_t line) const {
  if (format_.delimiter.empty()) return file_.empty() ? "the input" : file_;
  return (file_.empty() ? "" : file_ + ": ") + (format_.delimiter == "\n" ? "line " : "record ") + std::to_string(line);
}

}  // namespace partlog::cmd

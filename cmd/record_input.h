// Bytes of the input to records, a few dozen at a time.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json_input.h"
#include "partlog/producer.h"
#include "partlog/record.h"
#include "splitter.h"

namespace partlog::cmd {

struct InputFormat {
  std::string delimiter = "\n";  // empty: a file is one record
  std::optional<std::string> key_delimiter;
  bool lenient = false;        // no key delimiter: a record without key
  bool crlf = false;           // a CR before the delimiter is dropped
  bool skip_empty = false;     // pieces without a byte do not count at all
  bool empty_is_null = false;  // an empty value, or key before the delimiter
  std::optional<std::string> null_marker;
  bool json = false;
  bool keep_partition = false;     // of JSON
  std::optional<std::string> key;  // of records that have none
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  Timestamp timestamp = no_timestamp;
  std::uint64_t skip = 0;  // records at the start that are not wanted
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();
  std::size_t limit = 1 << 20;  // of a record's value and key, in bytes
};

class RecordInput {
 public:
  explicit RecordInput(InputFormat format);

  // Starts a file; the name, empty for standard input, goes into messages.
  void begin_file(std::string name);
  std::span<char> room() { return splitter_.room(); }
  void filled(std::size_t size) { splitter_.filled(size); }
  void end_file() { at_end_of_file_ = true; }
  // Records of these bytes alone, all of which have their delimiter, in place of a file; given() and lines() count anew.
  void begin_block(std::span<char> text);
  // As if so much had come in and been given already.
  void pass_over(std::uint64_t lines, std::uint64_t records);

  // The next records among the bytes that came in, valid until the next call of any function here; none: more bytes are needed.
  // Error(refused) for what is no record or is too long, once all the records before it were given.
  std::span<const Record> next();
  // Of the records that next() gave: bytes of the input, and with keep_partition the partitions, -1 where JSON named none.
  std::span<const std::uint32_t> sizes() const { return {sizes_.data(), given_}; }
  std::span<const std::int32_t> partitions() const { return {partitions_.data(), format_.keep_partition ? given_ : 0}; }
  // Where record `index` of those stood: "FILE: line 3".
  std::string place(std::size_t index) const { return place_of(lines_[index]); }

  const InputFormat& format() const { return format_; }
  std::uint64_t lines() const { return line_; }       // of the file
  std::uint64_t given() const { return all_given_; }  // how many records next() has given
  bool is_drained() const { return !failure_ && dropped_ == 0 && splitter_.pending().empty(); }  // no part of one is left
  bool complete() const { return left_ == 0; }  // as many as were asked for have been given
  Progress skipped() const { return skipped_; }

 private:
  static constexpr std::size_t most = 64;

  void fill();
  bool next_piece(std::string_view& piece, bool& delimited);
  void accept(std::string_view piece, bool delimited);
  std::optional<std::string> parse(std::string_view piece, Record& record);
  std::optional<std::string> parse_json(std::string_view line, Record& record);
  void give_default_key(Record& record) const;
  std::string too_long(std::uint64_t size, bool ended) const;
  std::string place_of(std::uint64_t line) const;
  std::size_t piece_limit() const;

  InputFormat format_;
  bool plain_;  // the whole piece is the value, and every piece is wanted
  Splitter splitter_;
  HeaderBuilder headers_;
  std::string file_;
  bool at_end_of_file_ = false;
  std::uint64_t line_ = 0;
  std::uint64_t left_;
  std::uint64_t to_skip_;
  Progress skipped_;
  std::uint64_t uncounted_bytes_ = 0;  // of empty pieces, to be counted with the next record
  std::uint64_t dropped_ = 0;          // of a piece that is too long
  std::optional<std::string> failure_;

  std::size_t given_ = 0;
  std::uint64_t all_given_ = 0;
  std::array<Record, most> records_;
  std::array<std::uint32_t, most> sizes_;
  std::array<std::int32_t, most> partitions_;
  std::array<std::uint64_t, most> lines_;
  std::vector<JsonRecord> json_;
};

}  // namespace partlog::cmd

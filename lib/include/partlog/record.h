// One record as it goes into and comes out of a partition: views only, nothing is owned.
//
// A Record handed out by a reader points into the reader's buffers and is valid until the reader's next call; one handed to a
// producer is copied before the call returns. Null and empty are different for keys, values and header values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "partlog/export.h"
#include "partlog/types.h"

namespace partlog {

// Bytes that may be null. Any byte may occur in them, NUL included.
class Bytes {
 public:
  constexpr Bytes() = default;  // null
  constexpr Bytes(const char* data, std::size_t size) : data_(data), size_(size) {}
  constexpr Bytes(std::string_view s) : data_(s.data() == nullptr ? "" : s.data()), size_(s.size()) {}

  constexpr bool is_null() const { return data_ == nullptr; }
  constexpr const char* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr std::string_view view() const { return {data_ == nullptr ? "" : data_, size_}; }

  friend constexpr bool operator==(Bytes a, Bytes b) { return a.is_null() == b.is_null() && a.view() == b.view(); }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Header {
  std::string_view name;
  Bytes value;
};

// The headers of a record in Kafka's encoding (for each: varint length, name, varint length or -1, value), as in a record of
// message format v2 without the leading count. Iterate with HeaderCursor; build with HeaderBuilder.
struct HeaderBlock {
  const char* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t count = 0;
};

// Walks the headers of a block that a reader has validated: `Header h; while (cursor.next(h)) …`.
class PARTLOG_EXPORT HeaderCursor {
 public:
  explicit HeaderCursor(HeaderBlock block) : at_(block.data), left_(block.count) {}
  bool next(Header& header);

 private:
  const char* at_;
  std::uint32_t left_;
};

class PARTLOG_EXPORT HeaderBuilder {
 public:
  void add(std::string_view name, Bytes value);
  void clear();
  // Valid until the next add or clear.
  HeaderBlock block() const;

  // After clear(): the headers given to add_over() are written to the memory from `begin` on, over what they are made of, so that
  // large ones are not there twice. Name and value lie in that memory, behind those given before, and with a byte behind them
  // that nobody needs either. Where they have no room there (the value before the name, for one) they are copied as by add().
  void write_over(char* begin);
  void add_over(std::string_view name, Bytes value);

 private:
  bool fits_over(std::string_view name, Bytes value) const;
  void append(std::string_view name, Bytes value);

  std::string encoded_;
  std::uint32_t count_ = 0;
  char* over_ = nullptr;  // there the headers are; none: in encoded_
  char* over_end_ = nullptr;
};

struct Record {
  Bytes key;
  Bytes value;
  HeaderBlock headers;
  Timestamp timestamp = no_timestamp;
  Offset offset;  // ignored on the way in
};

}  // namespace partlog

// The records of one message of format v0 or v1: its own, or those of the messages that its compressed value holds. Kafka
// documentation, "Message sets" and "Old Message Format"; how Kafka reads them: AbstractLegacyRecordBatch. No I/O.
//
// - Format v0: messages inside a wrapper have absolute offsets. They have no timestamp.
// - Format v1 (KIP-31, KIP-32): offsets inside are relative, and the wrapper's is the absolute offset of the last one, which need
// not
//   be dense: compaction leaves holes. Where the wrapper says log append time, its timestamp is that of every record inside.
// - LZ4 in format v0 has a wrong frame header checksum (KIP-57); as Kafka does, that one is not looked at there.
// - A compressed message inside a wrapper is damage, for Kafka too. A wrapper may hold messages of the other old format.
// - The checksum of each message inside is checked too, and everything must fit exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/batch_header.h"
#include "partlog/record.h"

namespace partlog::format {

class MessageSet {
 public:
  // `message` is whole, its header (of format v0 or v1, as read or from header()) has no fault and its checksum matches; it must
  // outlive the decoding. Decompresses if need be into a buffer kept for reuse, never more than `decompression_limit` bytes. If
  // the value of a wrapper is not a sequence of messages with rising offsets that end with the wrapper's, that is a fault and no
  // record is given.
  void open(const BatchHeader& header, std::span<const char> message, std::size_t decompression_limit);

  // The header with what only a look inside tells: first offset, number of records. As given, if there is a fault.
  const BatchHeader& header() const { return header_; }

  // As RecordDecoder has them.
  std::size_t decode(std::span<Record> into);
  const std::string& fault() const { return fault_; }
  Offset fault_offset() const;

  // Bytes held for what was decompressed.
  std::size_t memory() const { return decompressed_.capacity(); }
  // Gives them back. Records that were given are no longer valid.
  void release();

 private:
  void open_wrapper(std::span<const char> message, std::size_t decompression_limit);
  const char* look_through();
  const char* decode_message(Record& record);

  BatchHeader header_;
  std::vector<char> decompressed_;
  std::span<const char> left_;     // messages not decoded yet
  std::int64_t first_offset_ = 0;  // what the offsets in the messages are relative to
  std::string fault_;
};

}  // namespace partlog::format

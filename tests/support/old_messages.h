// Messages of formats v0 and v1 made byte by byte, with no code of the library: what old brokers and clients wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partlog::test {

struct OldMessage {
  std::int64_t offset = 0;
  int magic = 1;
  int attributes = 0;
  std::int64_t timestamp = 0;  // v1
  std::optional<std::string> key;
  std::optional<std::string> value;
};

// The bytes in a segment file or a message set.
std::string encoded(const OldMessage& message);

// Replaces the checksum of an encoded message by the right one.
std::string with_right_checksum(std::string message);

// `raw` as one LZ4 frame of one uncompressed block, with the frame header checksum that the specification asks for, or with the
// one that Kafka computed before KIP-57: over the magic number too.
std::string lz4_frame(std::string_view raw, bool broken_header_checksum);

// `raw` as one raw snappy block of literals, as xerial's snappy-java frames it, or bare.
std::string snappy_block(std::string_view raw);
std::string xerial_frame(std::string_view raw);

// `raw` as a gzip member of stored blocks (less than 64 KiB).
std::string gzip_member(std::string_view raw);

}  // namespace partlog::test

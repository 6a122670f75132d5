// Kafka's variable-length integers: zig-zag, then base 128, least significant group first (as in Protocol Buffers). At most 5
// bytes for 32 bits and 10 for 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partlog {

inline constexpr std::size_t max_varint32_size = 5;
inline constexpr std::size_t max_varint64_size = 10;

std::size_t varint_size(std::int64_t value);

inline char* write_varint(char* to, std::int64_t value) {
  auto v = (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
  while (v >= 0x80) {
    *to++ = static_cast<char>(v | 0x80);
    v >>= 7;
  }
  *to++ = static_cast<char>(v);
  return to;
}

// Reads one at [at, end); returns the byte behind it, or nullptr if it is cut off, too long, or out of range for the type.
const char* read_varint32_slow(const char* at, const char* end, std::int32_t& value);
const char* read_varint64_slow(const char* at, const char* end, std::int64_t& value);

inline const char* read_varint32(const char* at, const char* end, std::int32_t& value) {
  if (at < end) {
    const auto b0 = static_cast<unsigned char>(at[0]);
    if (b0 < 0x80) {
      value = static_cast<std::int32_t>(b0 >> 1) ^ -static_cast<std::int32_t>(b0 & 1);
      return at + 1;
    }
  }
  return read_varint32_slow(at, end, value);
}

inline const char* read_varint64(const char* at, const char* end, std::int64_t& value) {
  if (at < end) {
    const auto b0 = static_cast<unsigned char>(at[0]);
    if (b0 < 0x80) {
      value = static_cast<std::int64_t>(b0 >> 1) ^ -static_cast<std::int64_t>(b0 & 1);
      return at + 1;
    }
  }
  return read_varint64_slow(at, end, value);
}

}  // namespace partlog

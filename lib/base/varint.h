// Kafka's variable-length integers: zig-zag, then base 128, least significant group first (as in Protocol Buffers). At most 5
// bytes for 32 bits and 10 for 64.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace partlog {

inline constexpr std::size_t max_varint32_size = 5;
inline constexpr std::size_t max_varint64_size = 10;

inline std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

inline std::int32_t unzigzag32(std::uint32_t v) { return static_cast<std::int32_t>((v >> 1) ^ (0u - (v & 1))); }
inline std::int64_t unzigzag64(std::uint64_t v) { return static_cast<std::int64_t>((v >> 1) ^ (0u - (v & 1))); }

inline std::size_t zigzagged_size(std::uint64_t v) {
  if (v < 0x80) return 1;
  if (v < 0x4000) return 2;
  return (static_cast<std::size_t>(std::bit_width(v)) + 6) / 7;
}
inline std::size_t varint_size(std::int64_t value) { return zigzagged_size(zigzag(value)); }

// Zig-zag values, already mapped.
char* write_zigzagged_slow(char* to, std::uint64_t v);

inline char* write_zigzagged(char* to, std::uint64_t v) {
  if (v < 0x80) {
    *to = static_cast<char>(v);
    return to + 1;
  }
  if (v < 0x4000) {
    const auto both = static_cast<std::uint16_t>(v + (v & 0x3f80) + 0x80);  // the upper seven bits moved up by one
    to[0] = static_cast<char>(both);
    to[1] = static_cast<char>(both >> 8);
    return to + 2;
  }
  return write_zigzagged_slow(to, v);
}
inline char* write_varint(char* to, std::int64_t value) { return write_zigzagged(to, zigzag(value)); }

// Read one at [at, end); they return the byte behind it, or nullptr if it is cut off, too long, or out of range for the type.
const char* read_varint32_slow(const char* at, const char* end, std::int32_t& value);
const char* read_varint64_slow(const char* at, const char* end, std::int64_t& value);

// A varint of one or two bytes at `at`, where two bytes may be read; nullptr if it is longer.
inline const char* read_short_varint(const char* at, std::int32_t& value) {
  const std::uint32_t b0 = static_cast<unsigned char>(at[0]);
  if (b0 < 0x80) {
    value = unzigzag32(b0);
    return at + 1;
  }
  const std::uint32_t b1 = static_cast<unsigned char>(at[1]);
  if (b1 >= 0x80) return nullptr;
  value = unzigzag32(b0 - 0x80 + b1 * 0x80);
  return at + 2;
}

inline const char* read_varint32(const char* at, const char* end, std::int32_t& value) {
  if (end - at >= 2) {
    if (const char* behind = read_short_varint(at, value)) return behind;
  }
  return read_varint32_slow(at, end, value);
}

inline const char* read_varint64(const char* at, const char* end, std::int64_t& value) {
  if (end - at >= 2) {
    std::int32_t small;
    if (const char* behind = read_short_varint(at, small)) {
      value = small;
      return behind;
    }
  }
  return read_varint64_slow(at, end, value);
}

}  // namespace partlog

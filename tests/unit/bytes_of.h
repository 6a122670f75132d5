// Byte strings written as hex, and a reader of batches and varints that shares no code with the library: what the library encoded
// is checked against this, not against the library's own decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/seed.h"

namespace partlog::test {

inline std::string from_hex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c == ' ') continue;
    digits += c;
    if (digits.size() == 2) {
      bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
      digits.clear();
    }
  }
  return bytes;
}

inline std::string to_hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

class SlowReader {
 public:
  explicit SlowReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t byte() {
    if (at_ == bytes_.size()) throw std::out_of_range("read behind the end");
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::int64_t big_endian(int size) {
    std::uint64_t v = 0;
    for (int i = 0; i < size; ++i) v = v << 8 | byte();
    const int unused = 64 - 8 * size;
    return static_cast<std::int64_t>(v << unused) >> unused;
  }
  std::int64_t varint() {
    std::uint64_t v = 0;
    for (int i = 0;; ++i) {
      const std::uint64_t b = byte();
      v |= (b & 127) << (7 * i);
      if (b < 128) break;
    }
    return (v & 1) != 0 ? -static_cast<std::int64_t>(v / 2) - 1 : static_cast<std::int64_t>(v / 2);
  }
  std::string take(std::int64_t size) {
    std::string s;
    for (std::int64_t i = 0; i < size; ++i) s += static_cast<char>(byte());
    return s;
  }
  std::size_t at() const { return at_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

// CRC-32C bit by bit.
inline std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

inline std::mt19937_64 random_source() { return std::mt19937_64(random_seed()); }

inline std::size_t below(std::mt19937_64& random, std::size_t end) { return static_cast<std::size_t>(random() % end); }

inline std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string s(size, '\0');
  for (char& c : s) c = static_cast<char>(random());
  return s;
}

// Flips, overwrites, cuts or lengthens a little.
inline std::string damaged(std::mt19937_64& random, std::string s) {
  const std::size_t kind = below(random, 5);
  if (s.empty() || kind == 0) return s + random_bytes(random, 1 + below(random, 8));
  if (kind == 1) return s.substr(0, below(random, s.size()));
  for (std::size_t i = 0; i <= below(random, 4); ++i) {
    char& c = s[below(random, s.size())];
    c = kind == 2 ? static_cast<char>(c ^ (1 << below(random, 8))) : static_cast<char>(kind == 3 ? random() : 0xff);
  }
  return s;
}

}  // namespace partlog::test

#include "support/old_messages.h"

#include <bit>

namespace partlog::test {

namespace {

void put(std::string& to, std::int64_t value, int size) {
  for (int i = size - 1; i >= 0; --i) to += static_cast<char>(value >> (8 * i));
}

void put_little(std::string& to, std::uint32_t value, int size) {
  for (int i = 0; i < size; ++i) to += static_cast<char>(value >> (8 * i));
}

// CRC-32 bit by bit.
std::uint32_t slow_crc32(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

// XXH32 of less than 16 bytes, seed 0.
std::uint32_t slow_xxh32(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])); };
  std::uint32_t h = 0x165667b1u + static_cast<std::uint32_t>(bytes.size());
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    h += (byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24) * 0xc2b2ae3du;
    h = std::rotl(h, 17) * 0x27d4eb2fu;
  }
  for (; i < bytes.size(); ++i) h = std::rotl(h + byte(i) * 0x165667b1u, 11) * 0x9e3779b1u;
  h = (h ^ h >> 15) * 0x85ebca77u;
  h = (h ^ h >> 13) * 0xc2b2ae3du;
  return h ^ h >> 16;
}

void put_bytes(std::string& to, const std::optional<std::string>& bytes) {
  put(to, bytes ? static_cast<std::int64_t>(bytes->size()) : -1, 4);
  to += bytes.value_or("");
}

}  // namespace

std::string encoded(const OldMessage& message) {
  std::string body(4, '\0');  // the checksum's place
  put(body, message.magic, 1);
  put(body, message.attributes, 1);
  if (message.magic > 0) put(body, message.timestamp, 8);
  put_bytes(body, message.key);
  put_bytes(body, message.value);
  std::string all;
  put(all, message.offset, 8);
  put(all, static_cast<std::int64_t>(body.size()), 4);
  return with_right_checksum(all + body);
}

std::string with_right_checksum(std::string message) {
  std::string sum;
  put(sum, slow_crc32(std::string_view(message).substr(16)), 4);
  return message.replace(12, 4, sum);
}

std::string lz4_frame(std::string_view raw, bool broken_header_checksum) {
  std::string frame("\x04\x22\x4d\x18\x60\x40", 6);  // version 1, independent blocks of 64 KiB at most
  frame += static_cast<char>(slow_xxh32(std::string_view(frame).substr(broken_header_checksum ? 0 : 4)) >> 8);
  put_little(frame, static_cast<std::uint32_t>(raw.size()) | 0x80000000u, 4);
  frame += raw;
  put_little(frame, 0, 4);
  return frame;
}

std::string snappy_block(std::string_view raw) {
  std::string block;
  auto left = raw.size();
  for (; left > 127; left >>= 7) block += static_cast<char>((left & 127) | 128);
  block += static_cast<char>(left);
  for (std::size_t at = 0; at < raw.size(); at += 60) {
    const auto literal = raw.substr(at, 60);
    block += static_cast<char>((literal.size() - 1) << 2);
    block += literal;
  }
  return block;
}

std::string xerial_frame(std::string_view raw) {
  std::string frame("\x82SNAPPY\0\0\0\0\1\0\0\0\1", 16);
  for (std::size_t at = 0; at < raw.size(); at += 100) {
    const auto block = snappy_block(raw.substr(at, 100));
    put(frame, static_cast<std::int64_t>(block.size()), 4);
    frame += block;
  }
  return frame;
}

std::string gzip_member(std::string_view raw) {
  std::string member("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11);
  put_little(member, static_cast<std::uint32_t>(raw.size()), 2);
  put_little(member, ~static_cast<std::uint32_t>(raw.size()), 2);
  member += raw;
  put_little(member, slow_crc32(raw), 4);
  put_little(member, static_cast<std::uint32_t>(raw.size()), 4);
  return member;
}

}  // namespace partlog::test

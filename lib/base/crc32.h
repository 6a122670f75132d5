// CRC-32 (the one of zlib and gzip), the checksum of messages in Kafka's formats v0 and v1. ISA-L underneath.
#pragma once

#include <cstdint>
#include <span>

namespace partlog {

std::uint32_t crc32(std::span<const char> data);
// Continues a checksum returned by either function over the bytes that follow.
std::uint32_t crc32_extend(std::uint32_t crc, std::span<const char> data);

}  // namespace partlog

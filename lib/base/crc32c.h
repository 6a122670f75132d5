// CRC-32C (Castagnoli), the checksum of Kafka's record batches since message format v2. ISA-L underneath.
#pragma once

#include <cstdint>
#include <span>

namespace partlog {

std::uint32_t crc32c(std::span<const char> data);
// Continues a checksum returned by either function over the bytes that follow.
std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const char> data);

}  // namespace partlog

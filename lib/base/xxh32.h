// XXH32 with seed 0, the checksum in LZ4 frame headers, for up to 15 bytes.
#pragma once

#include <cstdint>
#include <span>

namespace partlog {

std::uint32_t xxh32(std::span<const char> data);

}  // namespace partlog

#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <climits>

#include "base/vector_registers.h"

namespace partlog {

std::uint32_t crc32c(std::span<const char> data) { return crc32c_extend(0, data); }

// ISA-L's function is the bare polynomial division: what goes in and what comes out is inverted here, as the checksum's
// definition has it. Its length is an int.
std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const char> data) {
  std::uint32_t state = ~crc;
  while (!data.empty()) {
    const std::size_t part = std::min<std::size_t>(data.size(), INT_MAX);
    auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));  // read only, despite its type
    state = crc32_iscsi(bytes, static_cast<int>(part), state);
    data = data.subspan(part);
  }
  leave_vector_code();
  return ~state;
}

}  // namespace partlog

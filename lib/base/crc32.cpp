#include "base/crc32.h"

#include <isa-l/crc.h>

#include "base/vector_registers.h"

namespace partlog {

std::uint32_t crc32(std::span<const char> data) { return crc32_extend(0, data); }

std::uint32_t crc32_extend(std::uint32_t crc, std::span<const char> data) {
  const auto sum = crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(data.data()), data.size());
  leave_vector_code();
  return sum;
}

}  // namespace partlog

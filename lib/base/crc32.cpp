#include "base/crc32.h"

#include <isa-l/crc.h>

namespace partlog {

std::uint32_t crc32(std::span<const char> data) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

}  // namespace partlog

#include "base/xxh32.h"

#include <bit>

#include "base/byte_order.h"
#include "base/check.h"

namespace partlog {

namespace {

constexpr std::uint32_t prime1 = 2654435761u;
constexpr std::uint32_t prime2 = 2246822519u;
constexpr std::uint32_t prime3 = 3266489917u;
constexpr std::uint32_t prime4 = 668265263u;
constexpr std::uint32_t prime5 = 374761393u;

}  // namespace

std::uint32_t xxh32(std::span<const char> data) {
  PARTLOG_CHECK(data.size() < 16);  // more are taken in stripes
  std::uint32_t hash = prime5 + static_cast<std::uint32_t>(data.size());
  for (; data.size() >= 4; data = data.subspan(4)) {
    const auto word = __builtin_bswap32(load_big_endian<std::uint32_t>(data.data()));
    hash = std::rotl(hash + word * prime3, 17) * prime4;
  }
  for (const char c : data) hash = std::rotl(hash + static_cast<unsigned char>(c) * prime5, 11) * prime1;
  hash = (hash ^ (hash >> 15)) * prime2;
  hash = (hash ^ (hash >> 13)) * prime3;
  return hash ^ (hash >> 16);
}

}  // namespace partlog

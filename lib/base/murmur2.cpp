#include "base/murmur2.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/check.h"

namespace partlog {

namespace {

constexpr std::uint32_t seed = 0x9747b28c;
constexpr std::uint32_t multiplier = 0x5bd1e995;
constexpr int shift = 24;

std::uint32_t load_little_endian(const char* from) {
  std::uint32_t v;
  std::memcpy(&v, from, sizeof v);
  return std::endian::native == std::endian::little ? v : __builtin_bswap32(v);
}

}  // namespace

std::uint32_t murmur2(std::string_view data) {
  std::uint32_t h = seed ^ static_cast<std::uint32_t>(data.size());
  std::size_t at = 0;
  for (; at + 4 <= data.size(); at += 4) {
    std::uint32_t k = load_little_endian(data.data() + at) * multiplier;
    k ^= k >> shift;
    h = (h * multiplier) ^ (k * multiplier);
  }
  if (at < data.size()) {
    for (std::size_t i = at; i < data.size(); ++i) {
      h ^= static_cast<std::uint32_t>(static_cast<unsigned char>(data[i])) << (8 * (i - at));
    }
    h *= multiplier;
  }
  h ^= h >> 13;
  h *= multiplier;
  return h ^ (h >> 15);
}

int partition_of_key(std::string_view key, int partitions) {
  PARTLOG_CHECK(partitions > 0);
  return static_cast<int>((murmur2(key) & 0x7fffffffu) % static_cast<std::uint32_t>(partitions));
}

}  // namespace partlog

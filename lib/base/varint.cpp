#include "base/varint.h"

namespace partlog {

namespace {

// The bits of an unsigned varint of at most `bits` bits. Needlessly long encodings are taken, bits beyond the type are not.
template <class Unsigned>
const char* read_groups(const char* at, const char* end, Unsigned& v) {
  constexpr int bits = static_cast<int>(8 * sizeof v);
  v = 0;
  for (int shift = 0; shift < bits && at < end; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    const auto group = static_cast<Unsigned>(byte & 0x7f);
    if (shift + 7 > bits && (group >> (bits - shift)) != 0) return nullptr;
    v |= group << shift;
    if (byte < 0x80) return at;
  }
  return nullptr;
}

}  // namespace

char* write_zigzagged_slow(char* to, std::uint64_t v) {
  while (v >= 0x80) {
    *to++ = static_cast<char>(v | 0x80);
    v >>= 7;
  }
  *to++ = static_cast<char>(v);
  return to;
}

const char* read_varint32_slow(const char* at, const char* end, std::int32_t& value) {
  std::uint32_t v;
  at = read_groups(at, end, v);
  value = unzigzag32(v);
  return at;
}

const char* read_varint64_slow(const char* at, const char* end, std::int64_t& value) {
  std::uint64_t v;
  at = read_groups(at, end, v);
  value = unzigzag64(v);
  return at;
}

}  // namespace partlog

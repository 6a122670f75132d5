// Big-endian integers in byte buffers (Kafka's byte order throughout).
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>

namespace partlog {

template <std::integral T>
inline T load_big_endian(const char* from) {
  std::make_unsigned_t<T> v;
  std::memcpy(&v, from, sizeof v);
  if constexpr (sizeof v == 2) v = __builtin_bswap16(v);
  if constexpr (sizeof v == 4) v = __builtin_bswap32(v);
  if constexpr (sizeof v == 8) v = __builtin_bswap64(v);
  return static_cast<T>(v);
}

template <std::integral T>
inline void store_big_endian(char* to, T value) {
  auto v = static_cast<std::make_unsigned_t<T>>(value);
  if constexpr (sizeof v == 2) v = __builtin_bswap16(v);
  if constexpr (sizeof v == 4) v = __builtin_bswap32(v);
  if constexpr (sizeof v == 8) v = __builtin_bswap64(v);
  std::memcpy(to, &v, sizeof v);
}

}  // namespace partlog

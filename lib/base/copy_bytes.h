// memcpy for the short runs of bytes that records are made of: inlined up to 256 bytes, without a call.
#pragma once

#include <cstddef>
#include <cstring>

namespace partlog {

namespace detail {

// The first and the last `Size` bytes, which overlap unless n is twice as much.
template <std::size_t Size>
inline void copy_ends(char* to, const char* from, std::size_t n) {
  char head[Size];
  char tail[Size];
  std::memcpy(head, from, Size);
  std::memcpy(tail, from + n - Size, Size);
  std::memcpy(to, head, Size);
  std::memcpy(to + n - Size, tail, Size);
}

}  // namespace detail

// Neither reads nor writes outside the n bytes. The runs must not overlap; null pointers are fine with n = 0.
inline void copy_bytes(char* to, const char* from, std::size_t n) {
  if (n > 256) {
    std::memcpy(to, from, n);
  } else if (n >= 64) {
    for (std::size_t i = 0; i + 64 < n; i += 64) std::memcpy(to + i, from + i, 64);
    std::memcpy(to + n - 64, from + n - 64, 64);
  } else if (n >= 32) {
    detail::copy_ends<32>(to, from, n);
  } else if (n >= 16) {
    detail::copy_ends<16>(to, from, n);
  } else if (n >= 8) {
    detail::copy_ends<8>(to, from, n);
  } else if (n >= 4) {
    detail::copy_ends<4>(to, from, n);
  } else if (n > 0) {
    to[0] = from[0];
    to[n / 2] = from[n / 2];
    to[n - 1] = from[n - 1];
  }
}

}  // namespace partlog

// After other people's vector code.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace partlog {

#if defined(__x86_64__)
[[gnu::target("avx")]] inline void zero_upper_halves() { _mm256_zeroupper(); }

// ISA-L leaves the upper halves of the vector registers dirty, and processors then take up to a hundred cycles for each change
// between the older and the newer kind of vector instructions (Intel's optimization manual, "Mixing AVX code with SSE code").
inline void leave_vector_code() {
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) zero_upper_halves();
}
#else
inline void leave_vector_code() {}
#endif

}  // namespace partlog

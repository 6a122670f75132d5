// The libFuzzer program; PARTLOG_FUZZ_TARGET names the target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/targets.h"

namespace {

const partlog::fuzz::Target& chosen() {
  const char* name = std::getenv("PARTLOG_FUZZ_TARGET");
  for (const auto& target : partlog::fuzz::targets()) {
    if (name != nullptr && std::string_view(name) == target.name) return target;
  }
  std::fputs("PARTLOG_FUZZ_TARGET must be one of:", stderr);
  for (const auto& target : partlog::fuzz::targets()) std::fprintf(stderr, " %s", target.name);
  std::fputs("\n", stderr);
  std::exit(2);
}

}  // namespace

// Before anything runs: whoever exits later is taken for a target that does, and a file with its input is left behind.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  chosen();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& target = chosen();
  target.run({reinterpret_cast<const char*>(data), size});
  return 0;
}

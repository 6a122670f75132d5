#include "support/seed.h"

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace partlog::test {

std::uint64_t random_seed() {
  const char* set = std::getenv("PARTLOG_SEED");
  const std::string given = set != nullptr ? set : "1";
  const std::uint64_t seed = given == "random" ? std::random_device()() : std::stoull(given);
  std::cout << "PARTLOG_SEED=" << seed << '\n' << std::flush;
  return seed;
}

}  // namespace partlog::test

#pragma once

#include <cstdint>

namespace partlog::test {

// Where the random choices of a test begin: always the same, so that what a change is told of comes from the change, unless
// PARTLOG_SEED is a number, or "random" for one that is drawn. Printed.
std::uint64_t random_seed();

}  // namespace partlog::test

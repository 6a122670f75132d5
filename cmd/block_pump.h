// The fast way through a large regular file: several threads, each of which reads a block, splits it and makes the batches, and
// then appends them when all before it have been. So no byte of a block moves from one processor's cache to another's.
#pragma once

#include <cstdint>
#include <functional>

#include "partlog/producer.h"
#include "record_input.h"

namespace partlog::cmd {

struct BlocksDone {
  std::uint64_t lines = 0;
  std::uint64_t records = 0;
};

// Stores records of the file from its position on, as reading it from there would, and leaves the position behind the last of
// them. Does nothing where this does not pay. It ends early, in good order, at a stop signal and before any block that is not
// plainly in order (a record that is none, a failed read, the end of the file): who reads on from there finds out what it is.
// What the producer or `after_call` throws is thrown on. `after_call` is called after each append, never by two threads at once,
// nor is any function of the producer; signals reach the thread that appends.
BlocksDone pump_blocks(int descriptor, const InputFormat& format, Producer& producer, const std::function<void()>& after_call);

}  // namespace partlog::cmd

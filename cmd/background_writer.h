// A second thread that writes buffers to a regular file in the order in which they were handed over. Used by one other thread.
//
// The thread receives no signals. What is handed over is written even if nobody asks any more; behind a failed write nothing is
// written.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "pages.h"

namespace partlog::cmd {

class BackgroundWriter {
 public:
  // All buffers have this size, of which `buffers` exist but for the ones that others made and handed over.
  BackgroundWriter(int descriptor, std::size_t buffer_size);
  ~BackgroundWriter();

  // A buffer to fill; waits until there is one.
  Pages take();
  // Takes over the buffer, to write `size` bytes from `from` on.
  void write(Pages buffer, const char* from, std::size_t size);
  // Waits until everything was written.
  void drain();
  // errno of the write that failed, 0: none did so far.
  int failure();
  // How many bytes were handed over and are not written yet.
  std::size_t pending();

 private:
  // So many that neither side often waits for the other, and all of them fit into the processor's cache.
  static constexpr std::size_t buffers = 4;

  struct Chunk {
    Pages buffer;
    const char* from;
    std::size_t size;
  };

  void run();

  int descriptor_;
  std::mutex mutex_;
  std::condition_variable handed_over_;
  std::condition_variable given_back_;
  std::deque<Chunk> waiting_;
  std::vector<Pages> empty_;
  bool writing_ = false;
  std::size_t pending_ = 0;
  bool ending_ = false;
  int failure_ = 0;
  std::thread thread_;
};

}  // namespace partlog::cmd

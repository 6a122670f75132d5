// The batches of a file with their checksums, worked out by threads ahead of the one that asks for them, in the order of the
// file.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "format/batch_header.h"
#include "log/window.h"
#include "os/file.h"

namespace partlog::inspect {

// The checksum that a batch has, of which the file may hold less by now.
std::uint32_t checksum_of(log::Window& window, std::int64_t position, const format::BatchHeader& header);

class ChecksumsAhead {
 public:
  // Looks at the file from a position where a batch should stand up to `end`. The file must outlive it. Without threads to be had
  // nothing is known.
  ChecksumsAhead(const os::File& file, std::int64_t position, std::int64_t end, int threads);
  ~ChecksumsAhead();

  struct Batch {
    std::int64_t position;
    format::BatchHeader header;  // without fault
    std::uint32_t sum;
  };
  // The batch there; valid until the next call. nullptr: nothing is known, and nothing will be from there on. Positions must
  // rise.
  const Batch* at(std::int64_t position);

 private:
  struct Job {
    std::vector<Batch> batches;
    bool done = false;
  };

  void work();
  void walk(Job& job, log::Window& window);

  const os::File& file_;
  std::int64_t frontier_;  // what lies before it was given to a thread
  const std::int64_t end_;
  std::size_t at_ = 0;  // in the first job

  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable done_;
  std::deque<std::unique_ptr<Job>> jobs_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace partlog::inspect

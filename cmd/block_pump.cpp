#include "block_pump.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "pages.h"
#include "processors.h"
#include "signals.h"

namespace partlog::cmd {
namespace {

constexpr std::int64_t worth_threads = 8 << 20;
constexpr int most_threads = 8;
constexpr std::size_t most_memory = 32 << 20;  // of all threads, for blocks and the batches made of them
constexpr std::size_t least_block = 512 << 10;
constexpr std::size_t most_partitions = 8;     // for which a block is made larger
constexpr std::size_t longest_rest = 1 << 20;  // of a block's last record, in the next one

// Blocks can be split apart from each other only where what a delimiter is does not depend on what stands before it, and a record
// not on how many there were.
bool suits(const InputFormat& format) {
  return format.delimiter.size() == 1 && format.skip == 0 && format.count == std::numeric_limits<std::uint64_t>::max() &&
         !format.skip_empty;
}

std::int64_t bytes_left(int descriptor, std::int64_t position) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size - position : 0;
}

// So large that the batches made of it become full ones.
std::size_t block_size(const InputFormat& format, const Producer& producer) {
  const bool is_keyed = format.key_delimiter || format.json;
  const auto partitions = is_keyed ? std::min(static_cast<std::size_t>(producer.topic().partitions), most_partitions) : 1;
  const auto records = std::max(producer.batch_bytes(), least_block) / 8 * 7 * partitions;  // encoded, they take more
  return records / page_size * page_size;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Reads blocks of one file: those on the grid of multiples of `block_size`, from the one on in which `start` lies.
class BlockReader {
 public:
  BlockReader(int descriptor, std::int64_t start, std::size_t block_size, char delimiter)
      : descriptor_(descriptor), start_(start), block_size_(static_cast<std::int64_t>(block_size)), delimiter_(delimiter) {}

  // The whole records that begin in the block, perhaps none. False: not all of it could be read, or the last has no end near.
  bool read(std::int64_t index);
  std::span<char> text() const { return text_; }
  std::int64_t end() const { return end_; }  // position in the file, if there is any text

 private:
  bool read_up_to(std::int64_t position);
  // Where a record may begin at or behind `position`; -1: not in what was read.
  std::int64_t boundary(std::int64_t position) const;
  char* at(std::int64_t position) const { return buffer_.get() + (position - begin_); }

  int descriptor_;
  std::int64_t start_;
  std::int64_t block_size_;
  char delimiter_;
  Pages buffer_;
  std::int64_t begin_ = 0;  // position in the file of what the buffer holds
  std::int64_t limit_ = 0;  // up to here
  std::int64_t end_ = 0;
  std::span<char> text_;
};

bool BlockReader::read(std::int64_t index) {
  constexpr auto page = static_cast<std::int64_t>(page_size);
  const auto from = index == 0 ? start_ : (start_ / block_size_ + index) * block_size_;
  const auto to = (start_ / block_size_ + index + 1) * block_size_;
  text_ = {};
  begin_ = limit_ = index == 0 ? from / page * page : from - page;  // the byte before it may be a delimiter
  if (!read_up_to(to + page)) return false;
  const auto first = index == 0 ? from : boundary(from);
  if (first < 0 || first >= to) return true;
  for (auto more = page; (end_ = boundary(to)) < 0; more *= 2) {
    if (more > static_cast<std::int64_t>(longest_rest) || !read_up_to(to + more)) return false;
  }
  text_ = {at(first), static_cast<std::size_t>(end_ - first)};
  return true;
}

bool BlockReader::read_up_to(std::int64_t position) {
  const auto wanted = static_cast<std::size_t>(position - begin_);
  if (wanted > buffer_.size()) buffer_.grow(wanted);
  while (limit_ < position) {
    const auto got = ::pread(descriptor_, at(limit_), static_cast<std::size_t>(position - limit_), limit_);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    limit_ += got;
  }
  return true;
}

std::int64_t BlockReader::boundary(std::int64_t position) const {
  const auto* found = std::memchr(at(position - 1), delimiter_, static_cast<std::size_t>(limit_ - (position - 1)));
  return found == nullptr ? -1 : begin_ + (static_cast<const char*>(found) - buffer_.get()) + 1;
}

class BlockPump {
 public:
  BlockPump(int descriptor, std::int64_t start, const InputFormat& format, Producer& producer,
            const std::function<void()>& after_call)
      : descriptor_(descriptor), start_(start), position_(start), format_(format), producer_(producer), after_call_(after_call) {}

  void run(int threads);
  BlocksDone done() const { return done_; }
  std::int64_t position() const { return position_; }

 private:
  struct Worker {
    explicit Worker(const BlockPump& pump)
        : blocks(pump.descriptor_, pump.start_, block_size(pump.format_, pump.producer_), pump.format_.delimiter[0]),
          input(pump.format_),
          batches(pump.producer_) {}
    BlockReader blocks;
    RecordInput input;
    RecordAccumulator batches;
  };

  void work();
  std::optional<std::int64_t> claim(RecordAccumulator& batches);
  static bool prepare(Worker& worker, std::int64_t index);
  bool wait_for_turn(std::int64_t index);
  bool append(Worker& worker);
  void pass_turn(bool on);

  const int descriptor_;
  const std::int64_t start_;
  std::int64_t position_;  // this and what follows belongs to the thread whose turn it is
  const InputFormat& format_;
  Producer& producer_;
  const std::function<void()>& after_call_;
  BlocksDone done_;
  std::exception_ptr failure_;

  sigset_t usual_signals_{};
  std::mutex mutex_;
  std::condition_variable turn_passed_;
  std::int64_t next_ = 0;              // block that nobody has taken yet
  std::atomic<std::int64_t> turn_{0};  // block to be appended next
  std::atomic<bool> ended_{false};
};

// Between appends signals wait: who appends must get them, since they cut short what it may be waiting for.
void BlockPump::run(int threads) {
  const SignalsBlocked blocked;
  usual_signals_ = blocked.before();
  std::vector<std::thread> others;
  try {
    while (static_cast<int>(others.size()) + 1 < threads) others.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // With as many as there are.
  }
  work();
  for (auto& other : others) other.join();
  if (failure_) std::rethrow_exception(failure_);
}

void BlockPump::work() {
  std::optional<Worker> worker;
  try {
    worker.emplace(*this);
  } catch (const std::exception&) {
    return;  // no memory: the others do it all, or whoever reads on
  }
  while (const auto index = claim(worker->batches)) {
    const bool is_good = prepare(*worker, *index);
    if (!wait_for_turn(*index)) return;
    pass_turn(is_good && append(*worker));
  }
}

// Blocks are taken in order, so that their times rise, too.
std::optional<std::int64_t> BlockPump::claim(RecordAccumulator& batches) {
  const std::lock_guard lock(mutex_);
  if (ended_) return std::nullopt;
  batches.clear();
  return next_++;
}

bool BlockPump::prepare(Worker& worker, std::int64_t index) {
  try {
    if (!worker.blocks.read(index)) return false;
    auto& input = worker.input;
    input.begin_block(worker.blocks.text());
    for (auto records = input.next(); !records.empty(); records = input.next()) {
      worker.batches.append(records, input.sizes(), input.partitions());
    }
    worker.batches.finish();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool BlockPump::wait_for_turn(std::int64_t index) {
  constexpr int looks = 2000;  // it is seldom long, and shorter than falling asleep
  for (int i = 0; i < looks && turn_ != index && !ended_; ++i) relax();
  if (turn_ == index) return true;
  std::unique_lock lock(mutex_);
  turn_passed_.wait(lock, [&] { return turn_ == index || ended_; });
  return turn_ == index;
}

// False: it ends here.
bool BlockPump::append(Worker& worker) {
  const SignalsAllowed allowed(usual_signals_);
  if (stop_requested()) return false;
  try {
    producer_.append(worker.batches);
    after_call_();
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }
  if (!worker.blocks.text().empty()) position_ = worker.blocks.end();
  done_.lines += worker.input.lines();
  done_.records += worker.input.given();
  return true;
}

void BlockPump::pass_turn(bool on) {
  {
    const std::lock_guard lock(mutex_);
    on ? ++turn_ : ended_ = true;
  }
  turn_passed_.notify_all();
}

}  // namespace

BlocksDone pump_blocks(int descriptor, const InputFormat& format, Producer& producer, const std::function<void()>& after_call) {
  const auto affordable = static_cast<int>(most_memory / (2 * block_size(format, producer)));
  const auto threads = std::min({processors(), most_threads, affordable});
  const auto start = ::lseek(descriptor, 0, SEEK_CUR);
  if (threads < 2 || start < 0 || !suits(format) || bytes_left(descriptor, start) < worth_threads) return {};
  BlockPump pump(descriptor, start, format, producer, after_call);
  try {
    pump.run(threads);
  } catch (...) {
    ::lseek(descriptor, pump.position(), SEEK_SET);
    throw;
  }
  ::lseek(descriptor, pump.position(), SEEK_SET);
  return pump.done();
}

}  // namespace partlog::cmd

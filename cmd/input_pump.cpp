#include "input_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "block_pump.h"
#include "messages.h"
#include "signals.h"
#include "text.h"

namespace partlog::cmd {
namespace {

// How long after the last input everything is made durable under --sync end.
constexpr std::chrono::seconds idle_before_sync{1};

[[noreturn]] void fail(const std::string& operation, const std::string& name, int error) {
  throw Error(ErrorCode::io, operation + " " + (name.empty() ? "standard input" : name) + ": " + system_message(error), error);
}

InputFiles::File open_file(const std::string& name) {
  bool is_stdin = name == "-";
  InputFiles::File file{is_stdin ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC), is_stdin ? "" : name, false};
  struct stat status{};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0) fail("open", file.name, errno);
  if (S_ISDIR(status.st_mode)) fail("open", file.name, EISDIR);
  file.waits = !S_ISREG(status.st_mode);
  if (S_ISFIFO(status.st_mode)) enlarge_pipe(file.descriptor);
  if (is_stdin && ::isatty(STDIN_FILENO) == 1) notice("reading records from the terminal, one a line; Ctrl-D ends");
  return file;
}

}  // namespace

InputFiles::InputFiles(const std::vector<std::string>& names) {
  for (const auto& name : names) files_.push_back(open_file(name));
  if (names.empty()) files_.push_back(open_file("-"));
}

InputFiles::~InputFiles() {
  for (const auto& file : files_) {
    if (file.descriptor != STDIN_FILENO) ::close(file.descriptor);
  }
}

void Report::add(const Acknowledgement& a, Progress skipped) {
  lines_ += topic_;
  for (std::int64_t number :
       {std::int64_t{a.partition}, a.first.value, a.last.value, static_cast<std::int64_t>(a.progress.records + skipped.records),
        static_cast<std::int64_t>(a.progress.bytes + skipped.bytes)}) {
    lines_ += '\t';
    append_number(lines_, number);
  }
  lines_ += '\n';
}

void Report::print() {
  if (lines_.empty()) return;
  output_.append(lines_);
  lines_.clear();
  output_.flush();
}

InputPump::InputPump(RecordInput& input, Producer& producer, SyncPolicy sync, std::function<void()> after_call)
    : input_(input), producer_(producer), sync_(sync), after_call_(std::move(after_call)) {}

void InputPump::run(const InputFiles& files) {
  for (const auto& file : files.all()) {
    if (&file == &files.all().back()) last_ = &file;
    run(file);
    if (stop_requested() || input_.complete()) break;
  }
  finished_ = !stop_requested() || input_.complete();
}

bool InputPump::nothing_left() {
  if (producer_.progress().records != input_.given()) return false;
  if (finished_ || input_.complete()) return true;
  // What ended the work came before the end of the input was read: it may be there.
  if (last_ == nullptr || !input_.is_drained()) return false;
  pollfd ready{last_->descriptor, POLLIN, 0};
  char byte;
  return ::poll(&ready, 1, 0) > 0 && ::read(last_->descriptor, &byte, 1) == 0;
}

void InputPump::run(const InputFiles::File& file) {
  input_.begin_file(file.name);
  if (!file.waits) pump_blocks(file.descriptor);
  for (bool last = false; !last && !input_.complete();) {
    last = stop_requested();  // what had come in before the signal is still taken
    if (file.waits ? !wait(file.descriptor) : last) break;
    auto room = input_.room();
    ssize_t size = ::read(file.descriptor, room.data(), room.size());
    if (size < 0 && errno != EINTR && errno != EAGAIN) fail("read", file.name, errno);
    if (size < 0) continue;
    if (size == 0) input_.end_file();
    input_.filled(static_cast<std::size_t>(size));
    hand_over();
    if (size == 0) break;
    if (file.waits) {
      last_input_ = Clock::now();
      meet_deadlines(last_input_);
    }
  }
}

void InputPump::pump_blocks(int descriptor) {
  producer_failed_ = true;
  const auto done = cmd::pump_blocks(descriptor, input_.format(), producer_, after_call_);
  producer_failed_ = false;
  input_.pass_over(done.lines, done.records);
}

// Until there is input (true) or a stop signal and none (false); meanwhile stores and syncs what becomes due.
bool InputPump::wait(int descriptor) {
  for (;;) {
    bool stop = stop_requested();
    auto deadline = stop ? std::optional(Clock::now()) : next_deadline();
    timespec left{};
    if (deadline) {
      auto ns = std::max(std::chrono::nanoseconds(*deadline - Clock::now()), std::chrono::nanoseconds(0)).count();
      left = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    }
    pollfd ready[] = {{descriptor, POLLIN, 0}, {stop_descriptor(), POLLIN, 0}};
    int count = ::ppoll(ready, 2, deadline ? &left : nullptr, nullptr);
    if (count > 0 && ready[0].revents != 0) return true;
    if (stop) return false;
    if (count == 0) meet_deadlines(Clock::now());
  }
}

std::optional<InputPump::Clock::time_point> InputPump::next_deadline() const {
  auto due = producer_.flush_due();
  if (sync_ != SyncPolicy::end || (!due && producer_.durable())) return due;
  auto idle = last_input_ + idle_before_sync;
  return due ? std::min(*due, idle) : idle;
}

void InputPump::meet_deadlines(Clock::time_point now) {
  auto due = producer_.flush_due();
  if (due && *due <= now) with_producer([&] { producer_.flush(); });
  if (sync_ == SyncPolicy::end && last_input_ + idle_before_sync <= now && !producer_.durable()) {
    with_producer([&] { producer_.sync(); });
  }
}

void InputPump::hand_over() {
  for (auto records = input_.next(); !records.empty(); records = input_.next()) {
    std::uint64_t before = producer_.taken();
    try {
      with_producer([&] { producer_.append(records, input_.sizes(), input_.partitions()); });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::refused) throw;
      producer_failed_ = false;  // it is one record that cannot be stored
      throw Error(error.code(), input_.place(producer_.taken() - before) + ": " + error.what());
    }
  }
}

template <class Work>
void InputPump::with_producer(Work work) {
  producer_failed_ = true;
  work();
  producer_failed_ = false;
  after_call_();
}

}  // namespace partlog::cmd

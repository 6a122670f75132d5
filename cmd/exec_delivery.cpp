#include "exec_delivery.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "messages.h"
#include "partlog/error.h"
#include "signals.h"
#include "text.h"

namespace partlog::cmd {
namespace {

constexpr std::uint64_t batch_bytes = 1 << 20;
// Where a filter lets little pass: the group is looked after, and what was left out is committed, in between.
constexpr int most_reads = 1000;
constexpr std::chrono::seconds first_pause{1};

int make_memory_file() {
  const int descriptor = ::memfd_create("batch", MFD_CLOEXEC);
  if (descriptor < 0) throw Error(ErrorCode::io, "making a buffer for the command: " + system_message(errno), errno);
  return descriptor;
}

void empty_file(int descriptor) {
  if (::ftruncate(descriptor, 0) != 0 || ::lseek(descriptor, 0, SEEK_SET) != 0) {
    throw Error(ErrorCode::io, "emptying the buffer for the command: " + system_message(errno), errno);
  }
}

std::string outcome_of(int status) {
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

struct ExecDelivery::Batch {
  std::string origin;  // the cursor's name
  std::string topic;   // empty, and the partition as well, if it is not known
  std::string partition;
  Offset first;  // offsets of its first and last record
  Offset last;
  Offset start;  // where the cursor stood before it was collected, and behind it
  Offset next;
  std::uint64_t records = 0;

  std::string name() const { return origin + " " + offsets_text(first, last); }
};

ExecDelivery::ExecDelivery(const Store* store, Filter& filter, Outcome& outcome, Options options, const OutputFormat& format,
                           ExecOptions exec)
    : Delivery(filter, outcome, options),
      store_(store),
      exec_(std::move(exec)),
      file_(make_memory_file()),
      output_(file_.get(), Output::SecondThread::never),
      format_(output_, format) {}

bool ExecDelivery::deliver(PartitionCursor& cursor) {
  const auto batch = collect(cursor);
  if (batch.next == batch.start) return false;
  if (!announce(cursor, batch.start, batch.next)) return false;
  if (batch.records == 0) return true;
  if (!run(batch)) {
    if (stop_requested()) {
      finish(cursor, batch.start);
      return false;
    }
    store_dead_letters(batch, cursor);
  }
  delivered_ += batch.records;
  return true;
}

// As many records as there are now, within the limits, formatted into the file.
ExecDelivery::Batch ExecDelivery::collect(PartitionCursor& cursor) {
  empty_file(file_.get());
  Batch batch;
  batch.start = batch.next = cursor.next();
  const auto limit = std::min(exec_.batch, still_wanted());
  const auto full = output_.appended() + batch_bytes;
  for (int reads = 0; batch.records < limit && output_.appended() < full && reads < most_reads && !stop_requested(); ++reads) {
    const auto records = cursor.read(outcome_);
    if (records.empty()) break;
    const auto origin = cursor.origin();
    const auto chosen = choose(records, cursor, limit - batch.records);
    if (batch.records == 0 && !chosen.records.empty()) {
      batch.origin = cursor.name();
      if (origin.is_known()) {
        batch.topic = origin.topic;
        batch.partition = std::to_string(origin.partition);
      }
      batch.first = chosen.records.front().offset;
    }
    if (!chosen.records.empty()) batch.last = chosen.records.back().offset;
    batch.records += chosen.records.size();
    batch.next = chosen.next;
    format_.write(chosen.records, origin);
    finish(cursor, chosen.next);
  }
  output_.flush();
  return batch;
}

// False: the command failed for good, or a signal asked us to end before it had not.
bool ExecDelivery::run(const Batch& batch) {
  const std::vector<std::string> variables = {"PARTLOG_TOPIC=" + batch.topic, "PARTLOG_PARTITION=" + batch.partition,
                                              "PARTLOG_FIRST_OFFSET=" + std::to_string(batch.first.value),
                                              "PARTLOG_LAST_OFFSET=" + std::to_string(batch.last.value)};
  auto wait = first_pause;
  for (int attempt = 0;; ++attempt, wait *= 2) {
    const int status = runner_.run(exec_.command, variables, file_.get());
    if (status == 0) return true;
    if (stop_requested()) return false;
    const auto failure = batch.name() + ": '" + exec_.command + "' " + outcome_of(status);
    if (attempt == exec_.retries) {
      if (exec_.dead_letter) {
        notice(failure + "; its records go to " + exec_.dead_letter->name);
        return false;
      }
      throw Error(
          ErrorCode::refused,
          failure + (exec_.retries > 0 ? ", after " + counted(static_cast<std::uint64_t>(exec_.retries) + 1, "attempt") : ""));
    }
    notice(failure + "; trying again in " + std::to_string(wait.count()) + " s");
    runner_.pause(wait);
    if (stop_requested()) return false;
  }
}

void ExecDelivery::store_dead_letters(const Batch& batch, PartitionCursor& cursor) {
  ProducerOptions options;
  options.stop = &stop_requested();
  options.notice = notice;
  Producer producer(*store_, *exec_.dead_letter, std::move(options));
  auto& reader = cursor.reader();
  const auto behind = reader.position();
  reader.seek(batch.first);
  HeaderBuilder headers;
  for (auto records = reader.read(batch.last + 1); !records.empty(); records = reader.read(batch.last + 1)) {
    for (auto record : filter_.passing(records)) {
      headers.clear();
      Header header;
      for (HeaderCursor old(record.headers); old.next(header);) headers.add(header.name, header.value);
      headers.add("partlog.origin",
                  std::string_view(batch.topic + ":" + batch.partition + ":" + std::to_string(record.offset.value)));
      record.headers = headers.block();
      producer.append({&record, 1});
    }
  }
  producer.sync();
  reader.seek(behind);
}

}  // namespace partlog::cmd

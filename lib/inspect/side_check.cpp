#include "inspect/side_check.h"

#include <optional>
#include <utility>

#include "format/checkpoint.h"
#include "format/file_names.h"
#include "format/index_entry.h"
#include "inspect/segment_check.h"
#include "os/directory.h"
#include "os/file.h"

namespace partlog::inspect {

namespace {

using Kind = CheckFinding::Kind;

constexpr std::size_t most_text = 1 << 20;  // as readers have it; in lists that grow,
constexpr std::size_t most_in_list = 64 << 20;

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

class SideCheck {
 public:
  explicit SideCheck(const std::string& path) : path_(path) {}

  std::vector<CheckFinding> run(FileKind kind) {
    try {
      if (const auto fault = read(kind)) add(fault->position, fault->reason);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::damaged) throw;
      add(std::nullopt, without_path(error.what(), path_));
    }
    return std::move(findings_);
  }

 private:
  FileFaultOrNone read(FileKind kind) {
    switch (kind) {
      case FileKind::offset_index:
        return read_offset_index(path_, [&](const OffsetEntry& entry) {
          rise({entry.offset.value, entry.position.value}, static_cast<std::int64_t>(format::offset_index_entry_size));
        });
      case FileKind::time_index:
        return read_time_index(path_, [&](const TimeEntry& entry) {
          rise({entry.timestamp.value, entry.offset.value}, static_cast<std::int64_t>(format::time_index_entry_size));
        });
      case FileKind::transaction_index:
        return read_transaction_index(path_, [&](const TransactionEntry& entry) { transaction(entry); });
      case FileKind::producer_snapshot:
        return read_producer_snapshot(path_, [&](const ProducerEntry& entry) { producer(entry); });
      case FileKind::leader_epochs:
        return read_leader_epochs(path_, [&](const EpochEntry& entry) { rise({entry.epoch, entry.start_offset.value}, 0); });
      case FileKind::offsets:
        return read_offset_checkpoint(path_, [](const OffsetOfPartition&) {});
      default:
        return read_text();
    }
  }

  // Both rise from entry to entry; a text has entries of size 0, whose place is not told.
  void rise(std::pair<std::int64_t, std::int64_t> entry, std::int64_t size) {
    if (before_ && (entry.first <= before_->first || entry.second < before_->second) && findings_.empty()) {
      add(size > 0 ? std::optional(Position{count_ * size}) : std::nullopt, "its entries do not rise");
    }
    before_ = entry;
    ++count_;
  }

  void transaction(const TransactionEntry& entry) {
    const bool is_right = entry.first_offset <= entry.last_offset && entry.first_offset >= Offset{0} &&
                          (!before_ || entry.last_offset.value > before_->second);
    if (!is_right && findings_.empty()) add(std::nullopt, "entry " + std::to_string(count_) + ": its offsets do not fit");
    before_ = {0, entry.last_offset.value};
    ++count_;
  }

  // A snapshot is of all that stands before the offset that it is named for.
  void producer(const ProducerEntry& entry) {
    const auto end = format::parse_segment_file_name(name_of(path_), ".snapshot");
    if (end && entry.last_offset >= *end && findings_.empty()) {
      add(std::nullopt, "producer " + std::to_string(entry.producer_id) + " has an offset behind that of the snapshot");
    }
  }

  FileFaultOrNone read_text() {
    const auto name = name_of(path_);
    const auto text = os::read_file(path_, name == "cuts" || name == "lost-offsets" ? most_in_list : most_text);
    if (!text) throw Error(ErrorCode::not_found, "open " + path_ + ": No such file or directory");
    if (name == "partition.metadata") {
      format::parse_partition_metadata(*text, path_);
    } else if (name == "log-start-offset") {
      format::parse_log_start_offset(*text, path_);
    } else if (name == "cuts") {
      format::parse_cuts(*text, path_);
    } else if (name == "lost-offsets") {
      format::parse_lost_offsets(*text, path_);
    } else if (name == "recovery-point") {
      recovery_point(*text);
    } else {
      return read_pairs(path_, [](std::string_view, std::string_view) {});
    }
    return std::nullopt;
  }

  void recovery_point(const std::string& text) {
    if (!format::is_part_of_recovery_point(text)) {
      format::parse_recovery_point(text, path_);
      return;
    }
    findings_.push_back(
        {Kind::note, path_, {}, {}, {}, {}, "a power failure has left only a part of it; the next append makes it anew"});
  }

  void add(std::optional<Position> position, std::string reason) {
    findings_.push_back({Kind::damage, path_, position, {}, {}, {}, std::move(reason)});
  }

  const std::string& path_;
  std::vector<CheckFinding> findings_;
  std::optional<std::pair<std::int64_t, std::int64_t>> before_;
  std::int64_t count_ = 0;
};

}  // namespace

std::vector<CheckFinding> check_side_file(const std::string& path, FileKind kind) { return SideCheck(path).run(kind); }

}  // namespace partlog::inspect

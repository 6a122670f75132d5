#include "log/partition_directory.h"

#include <algorithm>
#include <limits>

#include "base/time_text.h"
#include "format/batch_header.h"
#include "format/file_names.h"
#include "format/message_set.h"
#include "format/properties.h"
#include "log/window.h"
#include "os/clock.h"
#include "os/directory.h"
#include "os/file.h"
#include "os/file_lock.h"
#include "os/filesystem.h"
#include "partlog/error.h"

namespace partlog::log {

namespace {

// In a file whose name does not tell: what the first batch says.
Offset first_offset_in(const std::string& path) {
  const auto file = os::File::open(path, os::File::Mode::read);
  Window window(file, format::batch_header_size, false);
  const auto most = std::min(file.size(), static_cast<std::int64_t>(format::default_decompression_limit));
  const auto header = format::read_whole_header(window.view(0, format::batch_header_size));
  if (!header || format::header_fault(*header) != nullptr || header->size() > most) return {0};
  if (!header->is_wrapper()) return header->base_offset;
  format::MessageSet set;
  set.open(*header, window.view(0, static_cast<std::size_t>(header->size())), format::default_decompression_limit);
  return set.header().base_offset;
}

// Of files that stand in a store after all: whether their topic is not compacted.
bool is_dense_in_store(const std::string& directory) {
  try {
    if (!os::status_of(format::append_lock_path(directory))) return false;
    const auto file = format::topic_properties_path(directory + "/..");
    const auto text = os::read_file(file);
    return text && format::parse_properties(*text, file)["cleanup.policy"].find("compact") == std::string::npos;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io && error.code() != ErrorCode::damaged) throw;
    return false;  // nothing is known then
  }
}

}  // namespace

PartitionDirectory PartitionDirectory::of_files(const std::string& path) {
  const auto status = os::status_of(path);
  if (!status) throw Error(ErrorCode::not_found, "no file or directory " + path);
  if (!status->is_directory && !status->is_regular) throw Error(ErrorCode::refused, path + " is no file and no directory");
  const auto slash = path.rfind('/');
  const auto around = slash == std::string::npos ? std::string(".") : path.substr(0, std::max<std::size_t>(slash, 1));
  PartitionDirectory files(status->is_directory ? path : around, os::filesystem_of(path).network);
  files.in_store_ = false;
  files.dense_ = is_dense_in_store(files.path_);
  if (status->is_directory) return files;
  files.only_ = format::parse_segment_file_name(slash == std::string::npos ? path : path.substr(slash + 1), format::log_suffix);
  if (files.only_) return files;
  files.file_ = path;
  files.only_ = first_offset_in(path);
  return files;
}

PartitionDirectory PartitionDirectory::whole() const {
  auto all = *this;
  if (file_.empty()) all.only_.reset();
  return all;
}

std::vector<Offset> PartitionDirectory::segment_bases() const {
  return only_ ? std::vector{*only_} : bases_with(format::log_suffix);
}

std::optional<Offset> PartitionDirectory::bound(const std::vector<Offset>& strays) const {
  if (!only_ || !file_.empty()) return std::nullopt;
  auto all = bases_with(format::log_suffix);
  for (const auto stray : strays) std::erase(all, stray);
  const auto next = std::upper_bound(all.begin(), all.end(), *only_);
  return next == all.end() ? std::nullopt : std::optional(*next);
}

bool PartitionDirectory::is_empty(Offset base) const {
  const auto status = os::status_of(segment(base).log());
  return status && status->is_regular && status->size == 0;
}

// Of two that begin behind the end the second one is none if the first one is: few have to be looked at.
std::span<const Offset> PartitionDirectory::in_log(std::span<const Offset> empty, Offset end) const {
  const auto first = std::lower_bound(empty.begin(), empty.end(), end);
  const auto last = std::partition_point(first, empty.end(), [&](Offset base) { return !is_stray(base, end); });
  return {first, last};
}

bool PartitionDirectory::is_stray(Offset base, Offset end) const {
  if (!dense_ || base == end) return false;
  const auto from = std::max(end, log_start());
  if (from >= base || are_known_lost(from, base)) return false;
  const auto point = recovery_point();
  return !point || point->offset <= end;
}

std::optional<Offset> PartitionDirectory::index_without_segment(Offset from, Offset below) const {
  std::optional<Offset> first;
  for (const auto& name : os::list_directory(path_)) {
    auto base = format::parse_segment_file_name(name, format::index_suffix);
    if (!base) base = format::parse_segment_file_name(name, format::time_index_suffix);
    if (!base || *base < from || *base >= first.value_or(below)) continue;
    const auto log = segment(*base).log();
    if (!os::status_of(log) && !os::status_of(log + std::string(format::deleted_suffix))) first = base;
  }
  return first;
}

std::optional<Offset> PartitionDirectory::missing_start() const {
  const auto bases = segment_bases();
  if (only_ || bases.empty()) return std::nullopt;
  return index_without_segment({0}, bases.front());
}

std::optional<std::pair<Offset, Offset>> PartitionDirectory::missing_end(Offset last_base) const {
  constexpr Offset no_offset{std::numeric_limits<std::int64_t>::max()};
  const auto base = last_base < no_offset ? index_without_segment(last_base + 1, no_offset) : std::nullopt;
  if (!base) return std::nullopt;
  const IndexReader indexes(segment(*base));
  auto last = *base;
  if (const auto entry = indexes.last()) last = std::max(last, entry->offset);
  if (const auto entry = indexes.last_time()) last = std::max(last, entry->offset);
  return std::pair(*base, std::min(last, no_offset - 1));
}

bool PartitionDirectory::were_here(Offset from, Offset below) const {
  const auto point = point_for_reader();
  return (point && from < std::min(below, point->offset)) || index_without_segment(from, below);
}

std::vector<Offset> PartitionDirectory::bases_with(std::string_view suffix) const {
  std::vector<Offset> bases;
  for (const auto& name : os::list_directory(path_)) {
    if (const auto base = format::parse_segment_file_name(name, suffix)) bases.push_back(*base);
  }
  std::sort(bases.begin(), bases.end());
  return bases;
}

Offset PartitionDirectory::log_start() const {
  if (only_) return *only_;
  const auto file = format::log_start_offset_path(path_);
  if (const auto text = os::read_file(file)) return format::parse_log_start_offset(*text, file);
  if (in_store_) return {0};
  const auto bases = segment_bases();
  return bases.empty() ? Offset{0} : missing_start().value_or(bases.front());
}

bool PartitionDirectory::starts_behind(Offset end) const {
  if (only_ || network_ || log_start() <= end) return false;
  const auto point = point_for_reader();
  return point && point->offset > Offset{0} && point->boot_id == os::boot_id() && log_start() > point->offset;
}

void PartitionDirectory::throw_starts_behind(Offset end) const {
  throw Error(ErrorCode::damaged, format::log_start_offset_path(path_) + ": the log start offset " +
                                      std::to_string(log_start().value) + " is behind the end offset " +
                                      std::to_string(end.value));
}

void PartitionDirectory::move_log_start(Offset start) const {
  os::replace_file(format::log_start_offset_path(path_), format::format_log_start_offset(start), true);
}

std::int32_t PartitionDirectory::leader_epoch() const {
  const auto file = format::leader_epoch_checkpoint_path(path_);
  const auto text = os::read_file(file);
  if (!text) return 0;
  const auto epochs = format::parse_leader_epochs(*text, file);
  return epochs.empty() ? 0 : epochs.back().epoch;
}

// One that is far too large says no more than what a power failure has left of one.
static std::optional<std::string> text_or_none_of(const std::string& file) {
  try {
    return os::read_file(file);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::damaged) throw;
    return std::string();
  }
}

std::optional<format::RecoveryPoint> PartitionDirectory::recovery_point() const {
  const auto file = format::recovery_point_path(path_);
  const auto text = text_or_none_of(file);
  if (!text) return std::nullopt;
  if (const auto point = readable_recovery_point(*text, file)) return point;
  const auto bases = segment_bases();
  const bool is_whole = !format::is_part_of_recovery_point(*text);  // and damaged: no power failure leaves that
  const auto stable = bases.empty() ? log_start() : is_whole || bases.size() == 1 ? bases.back() : bases[bases.size() - 2];
  return format::RecoveryPoint{stable, stable, {0}, "unknown"};
}

std::optional<format::RecoveryPoint> PartitionDirectory::readable_recovery_point(const std::string& text,
                                                                                 const std::string& file) const {
  if (format::is_part_of_recovery_point(text)) return std::nullopt;
  try {
    return format::parse_recovery_point(text, file);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Offset> PartitionDirectory::stable_end() const {
  const auto point = only_ ? point_in(*only_) : point_for_reader();
  return point ? std::optional(point->offset) : std::nullopt;
}

std::optional<format::RecoveryPoint> PartitionDirectory::point_for_reader() const {
  if (network_) return std::nullopt;
  try {
    return recovery_point();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return std::nullopt;
  }
}

std::optional<format::RecoveryPoint> PartitionDirectory::point_in(Offset segment) const {
  const auto point = file_.empty() ? point_for_reader() : std::nullopt;
  return point && point->segment == segment && !is_under_repair() ? point : std::nullopt;
}

void PartitionDirectory::move_recovery_point(Offset offset, Offset segment, std::int64_t position, bool durable) const {
  const auto now = recovery_point();
  if (now && now->boot_id == current_boot() && now->offset >= offset) return;
  store_recovery_point(offset, segment, position, durable);
}

void PartitionDirectory::move_recovery_point_back(Offset offset, Offset segment, std::int64_t position) const {
  const auto now = recovery_point();
  if (now && now->offset > offset) store_recovery_point(offset, segment, position, true);
}

void PartitionDirectory::store_recovery_point(Offset offset, Offset segment, std::int64_t position, bool durable) const {
  os::replace_file(format::recovery_point_path(path_), recovery_point_text(offset, segment, position), durable);
}

std::string PartitionDirectory::recovery_point_text(Offset offset, Offset segment, std::int64_t position) const {
  return format::format_recovery_point({offset, segment, {position}, current_boot()});
}

std::string PartitionDirectory::current_boot() const { return network_ ? "-" : os::boot_id(); }

std::optional<format::RecoveryPoint> PartitionDirectory::suspect_from() const {
  if (network_) return std::nullopt;
  auto point = recovery_point();
  return point && is_of_another_boot(*point) ? point : std::nullopt;
}

bool PartitionDirectory::is_of_another_boot(const format::RecoveryPoint& point) const {
  return !network_ && point.boot_id != os::boot_id();
}

std::optional<format::RecoveryPoint> PartitionDirectory::suspect_if_readable() const {
  try {
    return suspect_from();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return std::nullopt;
  }
}

std::vector<format::Cut> PartitionDirectory::cuts() const {
  const auto file = format::cuts_path(path_);
  const auto text = os::read_file(file, 64 << 20);
  return text ? format::parse_cuts(*text, file) : std::vector<format::Cut>{};
}

void PartitionDirectory::add_cut_of_restart(Offset offset) const {
  const auto known = cuts();
  if (known.empty() || known.back().boot_id != os::boot_id() || known.back().offset != offset) add_cut(offset);
}

void PartitionDirectory::add_cut(Offset offset) const {
  const auto known = cuts();
  std::string text;
  for (const auto& cut : known) text += format::format_cut(cut);
  text += format::format_cut({offset, os::boot_id(), iso_time(os::clock().now())});
  os::replace_file(format::cuts_path(path_), text, true);
}

bool PartitionDirectory::is_as_synced(Offset base, std::int64_t file_size) const {
  if (network_) return false;
  try {
    const auto point = recovery_point();
    return point && point->segment == base && point->position.value == file_size;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return false;
  }
}

std::vector<format::LostOffsets> PartitionDirectory::lost_offsets() const {
  const auto file = format::lost_offsets_path(path_);
  const auto text = os::read_file(file, 64 << 20);
  return text ? format::parse_lost_offsets(*text, file) : std::vector<format::LostOffsets>{};
}

bool PartitionDirectory::is_under_repair() const {
  return os::status_of(format::repair_path(path_)) && os::lock_holder(format::append_lock_path(path_));
}

bool PartitionDirectory::are_known_lost(Offset from, Offset below) const {
  try {
    for (const auto& range : lost_offsets()) {
      if (range.first <= from && from <= range.last) from = range.last + 1;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::damaged) throw;  // a list that is damaged says nothing
  }
  return from >= below;
}

bool PartitionDirectory::sync_failed() const { return os::status_of(format::sync_failed_path(path_)).has_value(); }

void PartitionDirectory::mark_sync_failed(const std::string& reason) const {
  try {
    os::replace_file(format::sync_failed_path(path_), reason + '\n', false);
  } catch (const Error&) {
    // The failure to sync is reported in any case; a device that refuses the mark as well refuses the next append too.
  }
}

void PartitionDirectory::clear_sync_failed() const {
  if (os::remove_file(format::sync_failed_path(path_))) os::sync_directory(path_);
}

void create_partition_files(const PartitionDirectory& directory, const std::string& topic_id) {
  const auto& path = directory.path();
  const auto first = directory.segment({0});
  for (const auto& empty : {first.log(), first.index(), first.time_index(), format::append_lock_path(path)}) {
    os::File::open(empty, os::File::Mode::create_new);
  }
  os::replace_file(format::leader_epoch_checkpoint_path(path), format::format_leader_epochs({{0, {0}}}), false);
  os::replace_file(format::partition_metadata_path(path), format::format_partition_metadata(topic_id), false);
  os::replace_file(format::log_start_offset_path(path), format::format_log_start_offset({0}), false);
  directory.move_recovery_point({0}, {0}, 0, false);
  for (const auto& file : {format::leader_epoch_checkpoint_path(path), format::partition_metadata_path(path),
                           format::log_start_offset_path(path), format::recovery_point_path(path)}) {
    os::File::open(file, os::File::Mode::read).sync_data();
  }
  os::sync_directory(path);
}

}  // namespace partlog::log

#include "inspect/staging.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "format/file_names.h"
#include "format/properties.h"
#include "inspect/unreadable.h"
#include "os/directory.h"
#include "os/file_lock.h"
#include "partlog/error.h"
#include "partlog/segment_file.h"

namespace partlog::inspect {

namespace {

constexpr std::size_t most_plan = 64 << 20;
constexpr int most_looks_at_lock = 50;
constexpr auto between_looks = std::chrono::milliseconds(1);
constexpr std::string_view plan_kept = "kept ";
constexpr std::string_view plan_open = " open";
constexpr std::string_view plan_gone = " gone";
constexpr std::string_view plan_end = "end\n";

}  // namespace

Staging::Staging(std::string partition_directory)
    : partition_(std::move(partition_directory)), staging_(format::repair_path(partition_)) {}

std::int64_t Staging::size_of(const std::string& path) const {
  const auto status = os::status_of(path);
  return status && !status->is_directory ? status->size : -1;
}

// "name size" lines, or "name size open", or "name size gone"; the first one names the directory that keeps the old ones, the
// last one says that the list is whole.
std::optional<Staging::Steps> Staging::read_plan() const {
  const auto text = os::read_file(plan_path(), most_plan);
  if (!text || !text->ends_with(plan_end)) return std::nullopt;
  Steps steps;
  std::string_view rest(*text);
  rest.remove_suffix(plan_end.size());
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with(plan_kept) && format::parse_before_repair_name(line.substr(plan_kept.size()))) {
      steps.kept = target(std::string(line.substr(plan_kept.size())));
    } else {
      steps.files.push_back(read_step(line));
    }
  }
  return steps;
}

Staging::Step Staging::read_step(std::string_view line) const {
  const auto name = line.substr(0, line.find(' '));
  auto size = line.substr(std::min(name.size() + 1, line.size()));
  const bool is_open = size.ends_with(plan_open);
  const bool is_gone = size.ends_with(plan_gone);
  if (is_open || is_gone) size.remove_suffix(plan_open.size());
  const auto number = format::parse_integer(size);
  if (name.empty() || name.find('/') != std::string_view::npos || !number) {
    throw Error(ErrorCode::damaged,
                plan_path() + ": \"" + std::string(name) + "\" is no file of the partition; move " + staging_ + " away");
  }
  return {std::string(name), *number, is_open, is_gone};
}

// Nothing has been renamed yet, and a writer has appended to the active segment since. Once that one, which goes first, has its
// new file, nobody writes to the others.
bool Staging::is_outdated(const std::vector<Step>& steps) const {
  const auto is_log = [](const Step& step) { return step.name.ends_with(format::log_suffix); };
  const auto is_staged = [&](const Step& step) { return size_of(path(step.name)) >= 0; };
  const auto has_changed = [&](const Step& step) { return is_log(step) && size_of(target(step.name)) != step.old_size; };
  return std::all_of(steps.begin(), steps.end(), is_staged) && std::any_of(steps.begin(), steps.end(), has_changed);
}

Staging::Plan Staging::plan_of(const Steps& steps) const {
  return {steps.kept, os::read_file(report_path(), most_plan).value_or(std::string())};
}

std::optional<Staging::Plan> Staging::unfinished() const {
  const auto steps = read_plan();
  if (!steps || is_outdated(steps->files)) return std::nullopt;
  return plan_of(*steps);
}

bool Staging::is_abandoned() const {
  if (!os::status_of(plan_path())) return false;
  const auto lock = format::append_lock_path(partition_);
  for (int look = 1; os::lock_holder(lock); ++look) {
    if (look == most_looks_at_lock) return false;
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

std::optional<Staging::Plan> Staging::recover() const {
  const auto steps = read_plan();
  if (!steps || is_outdated(steps->files)) {
    discard();
    return std::nullopt;
  }
  finish(*steps);
  return plan_of(*steps);
}

// Of an index that a writer has changed since the plan was made, the writer's is as good. No file can take the place of a
// directory, which somebody has put there.
void Staging::finish(const Steps& steps) const {
  for (const auto& step : steps.files) {
    if (size_of(path(step.name)) < 0) continue;
    if (step.is_gone) {
      os::remove_file(target(step.name));
      os::remove_file(path(step.name));
      continue;
    }
    const auto old = os::status_of(target(step.name));
    if (old && old->is_directory) os::rename_path(target(step.name), steps.kept + '/' + step.name);
    const bool is_index = step.name.ends_with("index");
    if (is_index && size_of(target(step.name)) != step.old_size) continue;
    step.is_open ? overwrite(step.name) : os::rename_path(path(step.name), target(step.name));
  }
  os::sync_directory(partition_);
}

void Staging::begin() const {
  discard();
  os::make_directory(staging_);
  os::copy_access(partition_, staging_);
}

void Staging::discard() const {
  if (!os::status_of(staging_)) return;
  os::remove_file(plan_path());
  os::remove_tree(staging_);
  os::sync_directory(partition_);
}

void Staging::write(const std::string& name, std::string_view contents) const {
  auto file = os::File::open(path(name), os::File::Mode::create_new);
  file.write_at(contents, 0);
  file.sync_data();
}

std::string Staging::make_kept() const {
  int number = 0;
  for (const auto& name : os::list_directory(partition_)) {
    number = std::max(number, format::parse_before_repair_name(name).value_or(0));
  }
  auto kept = format::before_repair_path(partition_, number + 1);
  os::make_directory(kept);
  os::copy_access(partition_, kept);
  return kept;
}

// A file that is new, or whose old one even the repair may not read, gets the access of the last segment.
void Staging::give_access(const std::string& name) const {
  const auto is_model = [](const std::string& file) {
    const auto status = os::status_of(file);
    return status && status->is_regular &&
           unless_unreadable([&] { return os::File::open(file, os::File::Mode::read).is_open(); }).value_or(false);
  };
  if (is_model(target(name))) return os::copy_access(target(name), path(name));
  const auto segments = segment_paths(partition_);
  if (!segments.empty() && is_model(segments.back().path)) os::copy_access(segments.back().path, path(name));
}

void Staging::replace(const std::string& name) const {
  give_access(name);
  os::rename_path(path(name), target(name));
}

void Staging::overwrite(const std::string& name) const {
  const auto old = os::status_of(target(name));
  if (!old || !old->is_regular) return replace(name);
  os::copy_into(path(name), os::File::open(target(name), os::File::Mode::write));
  os::remove_file(path(name));
}

std::string Staging::commit(const std::vector<std::string>& names, const std::vector<std::string>& open,
                            const std::vector<std::string>& gone, const std::string& report) const {
  Steps steps;
  steps.kept = make_kept();
  for (const auto& name : open) {
    steps.files.push_back({name, size_of(target(name)), true});
    os::copy_file(target(name), steps.kept + '/' + name);
    os::copy_access(target(name), steps.kept + '/' + name);
  }
  for (const auto& name : names) {
    steps.files.push_back({name, size_of(target(name))});
    give_access(name);
    if (steps.files.back().old_size < 0) continue;
    os::link_or_copy(target(name), steps.kept + '/' + name);
    os::copy_access(target(name), steps.kept + '/' + name);
  }
  for (const auto& name : gone) {
    write(name, {});
    steps.files.push_back({name, size_of(target(name)), false, true});
    os::link_or_copy(target(name), steps.kept + '/' + name);
    os::copy_access(target(name), steps.kept + '/' + name);
  }
  std::string plan = std::string(plan_kept) + steps.kept.substr(steps.kept.rfind('/') + 1) + '\n';
  for (const auto& step : steps.files) {
    plan += step.name + ' ' + std::to_string(step.old_size);
    if (step.is_open) plan += plan_open;
    if (step.is_gone) plan += plan_gone;
    plan += '\n';
  }
  os::sync_directory(steps.kept);
  os::sync_directory(partition_);
  write("report", report);
  give_access("report");
  os::sync_directory(staging_);
  write("plan", plan += plan_end);
  give_access("plan");
  os::sync_directory(staging_);
  finish(steps);
  return steps.kept;
}

}  // namespace partlog::inspect

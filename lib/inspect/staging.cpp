#include "inspect/staging.h"

#include <algorithm>

#include "format/file_names.h"
#include "format/properties.h"
#include "inspect/unreadable.h"
#include "os/directory.h"
#include "partlog/error.h"
#include "partlog/segment_file.h"

namespace partlog::inspect {

namespace {

constexpr std::size_t most_plan = 64 << 20;

}  // namespace

Staging::Staging(std::string partition_directory)
    : partition_(std::move(partition_directory)), staging_(format::repair_path(partition_)) {}

std::int64_t Staging::size_of(const std::string& path) const {
  const auto status = os::status_of(path);
  return status ? status->size : -1;
}

// "name size" lines; the last one says that the list is whole.
std::optional<std::vector<Staging::Step>> Staging::read_plan() const {
  const auto text = os::read_file(plan_path(), most_plan);
  if (!text || !text->ends_with("end\n")) return std::nullopt;
  std::vector<Step> steps;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto space = line.find(' ');
    if (space == std::string_view::npos) break;
    const auto size = format::parse_integer(line.substr(space + 1));
    if (!size) return std::nullopt;
    const auto name = line.substr(0, space);
    if (name.empty() || name.find('/') != std::string_view::npos) {
      throw Error(ErrorCode::damaged,
                  plan_path() + ": \"" + std::string(name) + "\" is no file of the partition; move " + staging_ + " away");
    }
    steps.push_back({std::string(name), *size});
  }
  return steps;
}

// Nothing has been renamed yet, and a writer has appended to the active segment since. Once that one, which goes first, has its
// new file, nobody writes to the others.
bool Staging::is_outdated(const std::vector<Step>& steps) const {
  const auto is_log = [](const Step& step) { return step.name.ends_with(format::log_suffix); };
  const auto is_staged = [&](const Step& step) { return size_of(path(step.name)) >= 0; };
  const auto has_changed = [&](const Step& step) { return is_log(step) && size_of(target(step.name)) != step.old_size; };
  return std::all_of(steps.begin(), steps.end(), is_staged) && std::any_of(steps.begin(), steps.end(), has_changed);
}

void Staging::recover() const {
  if (!os::status_of(staging_)) return;
  const auto steps = read_plan();
  steps && !is_outdated(*steps) ? finish(*steps) : discard();
}

// Of an index that a writer has changed since the plan was made, the writer's is as good.
void Staging::finish(const std::vector<Step>& steps) const {
  for (const auto& step : steps) {
    if (size_of(path(step.name)) < 0) continue;
    const bool is_index = step.name.ends_with("index");
    if (is_index && size_of(target(step.name)) != step.old_size) continue;
    os::rename_path(path(step.name), target(step.name));
  }
  os::sync_directory(partition_);
  discard();
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

std::string Staging::commit(const std::vector<std::string>& names, const std::vector<std::string>& open) const {
  const auto kept = make_kept();
  for (const auto& name : open) {
    os::copy_file(target(name), kept + '/' + name);
    os::copy_access(target(name), kept + '/' + name);
    os::sync_directory(kept);
    overwrite(name);
  }
  std::vector<Step> steps;
  std::string plan;
  for (const auto& name : names) {
    // No file can take the place of a directory, which somebody has put there.
    if (const auto status = os::status_of(target(name)); status && status->is_directory) {
      os::rename_path(target(name), kept + '/' + name);
    }
    steps.push_back({name, size_of(target(name))});
    plan += name + " " + std::to_string(steps.back().old_size) + "\n";
    give_access(name);
    if (steps.back().old_size < 0) continue;
    os::link_or_copy(target(name), kept + '/' + name);
    os::copy_access(target(name), kept + '/' + name);
  }
  os::sync_directory(kept);
  os::sync_directory(partition_);
  os::sync_directory(staging_);
  write("plan", plan + "end\n");
  give_access("plan");
  os::sync_directory(staging_);
  finish(steps);
  return kept;
}

}  // namespace partlog::inspect

#include "partlog/store.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "format/checkpoint.h"
#include "format/file_names.h"
#include "format/properties.h"
#include "log/partition_directory.h"
#include "os/clock.h"
#include "os/directory.h"
#include "os/file_lock.h"
#include "os/filesystem.h"
#include "partlog/error.h"
#include "partlog/reader.h"

namespace partlog {

namespace {

constexpr std::int64_t format_version = 1;

void require_trusted_locks(const os::Filesystem& filesystem, const std::string& directory) {
  if (filesystem.lock_fault.empty()) return;
  throw Error(ErrorCode::refused, directory + ": the locks of this file system do not reach other hosts (" +
                                      filesystem.lock_fault + "); mount it with working locks");
}

// A directory in staging, and the lock that says that its maker is alive.
struct Staged {
  std::string path;
  os::FileLock::Guard lock;
};

Staged make_staged(const std::string& staging, std::string_view topic) {
  for (;;) {
    Staged staged{staging + '/' + format::unique_name(topic), {}};
    os::make_directory(staged.path);
    try {
      staged.lock = os::FileLock::open(format::topic_lock_path(staged.path)).lock();
    } catch (const Error& error) {
      os::remove_tree(staged.path);
      if (error.code() == ErrorCode::not_found) continue;  // somebody who sweeps was here
      throw;
    }
    if (os::status_of(format::topic_lock_path(staged.path))) return staged;
    // Somebody who sweeps had the lock first, and took it for a dead maker's.
  }
}

// Removes what a dead process left in staging, nothing of a living one.
void sweep_staged(const std::string& path) {
  constexpr std::int64_t hour_ms = 3'600'000;
  std::optional<os::FileLock::Guard> lock;
  if (os::status_of(format::topic_lock_path(path))) {
    lock = os::FileLock::open(format::topic_lock_path(path), false).try_lock();
    if (!lock) return;
  } else {
    const auto status = os::status_of(path);
    if (!status || os::clock().now().value - status->modified_ms < hour_ms) return;
  }
  os::remove_tree(path);
}

// Whatever cannot be removed now is left to those who come later.
void sweep_each(const std::string& directory, void (*remove)(const std::string&)) {
  std::vector<std::string> names;
  try {
    names = os::list_directory(directory);
  } catch (const Error&) {
    return;
  }
  for (const auto& name : names) {
    try {
      remove(directory + '/' + name);
    } catch (const Error&) {
    }
  }
}

// What processes that were killed left behind.
void sweep(const std::string& store) {
  sweep_each(format::trash_path(store), os::remove_tree);
  sweep_each(format::staging_path(store), sweep_staged);
}

void require_same(const Store& store, const Topic& topic) {
  const auto now = store.find_topic(topic.name);
  if (now && now->id == topic.id) return;
  throw Error(ErrorCode::not_found, "topic \"" + topic.name + "\" was deleted" + (now ? " and made anew" : "") + " meanwhile");
}

format::Properties topic_properties(const std::string& id, int partitions, const TopicConfig& config) {
  format::Properties properties(config.values().begin(), config.values().end());
  properties["topic.id"] = id;
  properties["partitions"] = std::to_string(partitions);
  return properties;
}

Topic read_topic(const std::string& directory, std::string_view name, const std::string& file, std::string_view text) {
  auto properties = format::parse_properties(text, file);
  Topic topic;
  topic.name = name;
  topic.directory = directory;
  const auto partitions = format::integer_property(properties, "partitions", file);
  if (partitions < 1 || partitions > format::max_partitions)
    throw Error(ErrorCode::damaged, file + ": partitions=" + std::to_string(partitions) + " is out of range");
  topic.partitions = static_cast<int>(partitions);
  topic.id = properties["topic.id"];
  properties.erase("topic.id");
  properties.erase("partitions");
  for (const auto& [key, value] : properties) {
    try {
      topic.config.set(key, value);
    } catch (const Error& error) {
      throw Error(ErrorCode::damaged, file + ": " + error.what());
    }
  }
  return topic;
}

std::vector<int> partitions_in(const std::string& topic_directory) {
  std::vector<int> numbers;
  for (const auto& name : os::list_directory(topic_directory)) {
    const auto number = format::parse_partition_name(name);
    if (number && os::status_of(format::partition_path(topic_directory, *number))->is_directory) numbers.push_back(*number);
  }
  return numbers;
}

// As the files of the partitions have it; empty if none can be read.
std::string topic_id_in(const std::string& topic_directory, const std::vector<int>& partitions) {
  for (const int number : partitions) {
    try {
      const auto path = format::partition_metadata_path(format::partition_path(topic_directory, number));
      if (const auto text = os::read_file(path)) return format::parse_partition_metadata(*text, path);
    } catch (const Error&) {
      // Another one may tell.
    }
  }
  return {};
}

// What can be done about a topic.properties that says nothing.
Error with_way_out(const Error& error, const std::string& topic_directory) {
  std::vector<int> partitions;
  try {
    partitions = partitions_in(topic_directory);
  } catch (const Error&) {
    // Then there is less to be told.
  }
  const auto id = topic_id_in(topic_directory, partitions);
  std::string hint = "; mend it, put a copy of it back, or write it anew with the lines topic.id=";
  hint += id.empty() ? "ID (any 22 letters and digits)" : id;
  hint += " and partitions=";
  hint += partitions.empty() ? "N" : std::to_string(*std::max_element(partitions.begin(), partitions.end()) + 1);
  return {error.code(), error.what() + hint, error.system_error()};
}

// Without its properties, a topic is known by its partitions.
bool is_topic(const std::string& directory) {
  if (os::status_of(format::topic_properties_path(directory))) return true;
  const auto status = os::status_of(directory);
  return status && status->is_directory && !partitions_in(directory).empty();
}

}  // namespace

void require_valid_topic_name(std::string_view name) {
  if (const auto fault = format::name_fault(name); !fault.empty()) {
    throw Error(ErrorCode::invalid_argument, "topic name \"" + std::string(name) + "\": " + fault);
  }
}

void require_no_collision(std::string_view name, const std::vector<std::string>& among) {
  const auto same = [](char a, char b) { return a == b || ((a == '.' || a == '_') && (b == '.' || b == '_')); };
  for (const auto& other : among) {
    if (name == other || !std::equal(name.begin(), name.end(), other.begin(), other.end(), same)) continue;
    throw Error(ErrorCode::refused, "topic \"" + std::string(name) + "\" would collide with topic \"" + other +
                                        "\": Kafka takes dot and underscore for the same in its metrics");
  }
}

// What only a store that was whole once has.
static std::optional<std::string> remains_of_store(const std::string& directory) {
  for (const auto& part : {format::topics_path(directory), format::staging_path(directory), format::trash_path(directory)}) {
    const auto status = os::status_of(part);
    if (!status || !status->is_directory) continue;
    if (const auto names = os::list_directory(part); !names.empty()) return part + '/' + names.front();
  }
  return std::nullopt;
}

static Error lost_properties(const std::string& directory, const std::string& remains) {
  return {ErrorCode::not_found, directory + ": store.properties is missing, though this was a store (" + remains +
                                    " is there); put it back, or write it anew with the lines format.version=" +
                                    std::to_string(format_version) + " and store.id=ID (any 22 letters and digits)"};
}

Store Store::open(const std::string& directory) {
  const auto status = os::status_of(directory);
  if (status && !status->is_directory) throw Error(ErrorCode::not_found, directory + " is not a directory");
  const auto file = format::store_properties_path(directory);
  const auto text = os::read_file(file);
  if (!text) {
    if (const auto remains = remains_of_store(directory)) throw lost_properties(directory, *remains);
    throw Error(ErrorCode::not_found,
                directory + ": no store here (no store.properties); create-topic and produce --create make one");
  }
  const auto properties = format::parse_properties(*text, file);
  const auto version = format::integer_property(properties, "format.version", file);
  if (version < 1) {
    throw Error(ErrorCode::damaged, file + ": format.version=" + std::to_string(version) +
                                        " is out of range; this partlog writes " + std::to_string(format_version));
  }
  if (version > format_version) {
    throw Error(ErrorCode::refused, directory + ": the store has format version " + std::to_string(version) +
                                        ", this partlog knows version " + std::to_string(format_version) +
                                        "; use a newer partlog");
  }
  const auto filesystem = os::filesystem_of(directory);
  require_trusted_locks(filesystem, directory);
  return {directory, filesystem.network};
}

// Where a directory that is still to be made will lie.
static std::string nearest_existing(const std::string& directory) {
  std::filesystem::path path = directory;
  while (!path.empty() && !os::status_of(path.string())) path = path.parent_path();
  return path.empty() ? "." : path.string();
}

void Store::require_creatable(const std::string& directory) {
  const auto existing = nearest_existing(directory);
  if (!os::status_of(existing)->is_directory) throw Error(ErrorCode::not_found, existing + " is not a directory");
  require_trusted_locks(os::filesystem_of(existing), directory);
  if (!os::status_of(directory)) return os::require_writable(existing, "make directory " + directory);
  const auto remains = remains_of_store(directory);
  auto entries = os::list_directory(directory);
  if (std::ranges::find(entries, "store.properties") != entries.end()) return;  // made by another process meanwhile
  if (remains) throw lost_properties(directory, *remains);
  std::erase_if(entries, [](const std::string& name) {
    return name == "topics" || name == "staging" || name == "trash" || name.starts_with("store.properties");
  });
  if (!entries.empty()) {
    throw Error(ErrorCode::not_found,
                directory + ": no store here, and the directory is not empty (" + entries.front() + "), so none was made");
  }
  os::require_writable(directory, "make a store in " + directory);
}

Store Store::open_or_create(const std::string& directory) {
  const auto file = format::store_properties_path(directory);
  if (!os::status_of(file)) {
    require_creatable(directory);
    if (os::status_of(file)) return open(directory);
    os::make_directories(directory);
    for (const auto& part : {format::staging_path(directory), format::trash_path(directory), format::topics_path(directory)})
      os::make_directories(part);
    // Another process may be doing the same: whichever name comes last stands, and both know the same format.
    os::replace_file(
        file,
        format::format_properties({{"format.version", std::to_string(format_version)}, {"store.id", format::random_uuid()}}),
        true);
  }
  return open(directory);
}

// One that may not be looked into counts: whoever asks for it hears of that.
static bool may_be_topic(const std::string& directory) {
  try {
    return is_topic(directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return true;
  }
}

std::vector<std::string> Store::topic_names() const {
  auto names = os::list_directory(format::topics_path(directory_));
  std::erase_if(names, [&](const std::string& name) {
    return !format::name_fault(name).empty() || !may_be_topic(format::topic_path(directory_, name));
  });
  std::sort(names.begin(), names.end());
  return names;
}

std::string Store::topic_directory(std::string_view name) const { return format::topic_path(directory_, name); }

std::optional<Topic> Store::find_topic(std::string_view name) const {
  require_valid_topic_name(name);
  const auto path = format::topic_path(directory_, name);
  const auto file = format::topic_properties_path(path);
  try {
    const auto text = os::read_file(file);
    if (text) return read_topic(path, name, file, *text);
    if (!is_topic(path)) return std::nullopt;
    throw Error(ErrorCode::damaged, file + ": is missing, though partitions of the topic are there");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::damaged) throw with_way_out(error, path);
    if (error.system_error() == EISDIR)
      throw Error(error.code(), error.what() + std::string("; move the directory away"), EISDIR);
    throw;
  }
}

Topic Store::topic(std::string_view name) const {
  if (auto found = find_topic(name)) return *found;
  std::string message = "no topic \"" + std::string(name) + "\" in " + directory_;
  const auto similar = similar_names(name, topic_names());
  for (std::size_t i = 0; i < similar.size(); ++i) message += (i == 0 ? "; similar: " : ", ") + similar[i];
  throw Error(ErrorCode::not_found, message);
}

PartitionInfo Store::partition_info(const Topic& topic, int partition) const {
  PartitionReader reader(*this, topic, partition);
  PartitionInfo info{reader.start(), reader.end(), 0, {}};
  const log::PartitionDirectory directory(reader.directory(), network_);
  for (const auto base : directory.segment_bases()) {
    const auto status = os::status_of(directory.segment(base).log());
    if (!status) continue;  // removed meanwhile
    info.segments.push_back({base, status->size, {status->modified_ms}});
    info.size_bytes += status->size;
  }
  return info;
}

void Store::require_writable() const {
  for (const auto& path : {format::topics_path(directory_), format::staging_path(directory_)}) {
    if (os::status_of(path)) os::require_writable(path, "write to " + path);
  }
}

static Error already_exists(std::string_view topic) {
  return {ErrorCode::already_exists, "topic \"" + std::string(topic) + "\" exists already"};
}

void Store::require_free(std::string_view name) const {
  if (find_topic(name)) throw already_exists(name);
  const auto path = format::topic_path(directory_, name);
  const auto status = os::status_of(path);
  if (!status || (status->is_directory && os::list_directory(path).empty())) return;
  throw Error(ErrorCode::refused, path + ": is no topic, and stands in the way of one; move it away");
}

void Store::create_topic(std::string_view name, int partitions, const TopicConfig& config) const {
  require_valid_topic_name(name);
  if (partitions < 1 || partitions > format::max_partitions) {
    throw Error(ErrorCode::invalid_argument,
                "a topic has 1 to " + std::to_string(format::max_partitions) + " partitions, not " + std::to_string(partitions));
  }
  require_free(name);
  if (name.find_first_of("._") != std::string_view::npos) require_no_collision(name, topic_names());
  sweep(directory_);
  os::make_directories(format::staging_path(directory_));
  const auto [staged, lock] = make_staged(format::staging_path(directory_), name);
  try {
    const auto id = format::random_uuid();
    for (int p = 0; p < partitions; ++p) {
      const log::PartitionDirectory directory(format::partition_path(staged, p), network_);
      os::make_directory(directory.path());
      log::create_partition_files(directory, id);
    }
    os::replace_file(format::topic_properties_path(staged), format::format_properties(topic_properties(id, partitions, config)),
                     true);
    os::sync_directory(staged);
    os::rename_path(staged, format::topic_path(directory_, name));
  } catch (const Error& error) {
    os::remove_tree(staged);
    // rename does not replace a directory that has something in it: somebody else made the topic first.
    require_free(name);
    if (error.code() == ErrorCode::already_exists) throw already_exists(name);
    throw;
  }
  os::sync_directory(format::topics_path(directory_));
}

void Store::alter_topic_config(const Topic& topic, const std::function<void(TopicConfig&)>& change,
                               std::optional<std::chrono::milliseconds> lock_timeout) const {
  require_same(*this, topic);
  os::LockWait wait;
  wait.timeout = lock_timeout;
  wait.poll = network_;
  const auto lock = os::FileLock::open(format::topic_lock_path(topic.directory)).lock(wait);
  require_same(*this, topic);
  auto config = this->topic(topic.name).config;
  change(config);
  os::replace_file(format::topic_properties_path(topic.directory),
                   format::format_properties(topic_properties(topic.id, topic.partitions, config)), true);
}

void Store::delete_topic(const Topic& topic) const {
  sweep(directory_);
  os::make_directories(format::trash_path(directory_));
  const auto trashed = format::trash_path(directory_) + '/' + format::unique_name(topic.name);
  {
    os::FileLock::Guard lock;  // nobody writes properties to this path while another topic may come to stand there
    const auto lock_path = format::topic_lock_path(topic.directory);
    os::LockWait wait;
    wait.poll = network_;
    if (os::status_of(lock_path)) lock = os::FileLock::open(lock_path, false).lock(wait);
    require_same(*this, topic);
    os::rename_path(topic.directory, trashed);
  }
  os::sync_directory(format::topics_path(directory_));
  os::remove_tree(trashed);
}

}  // namespace partlog

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "support/faulty_system.h"

namespace partlog::test {

namespace {

std::optional<os::FileId> id_of(const std::string& path) {
  struct stat found;
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return os::status_from(found).id;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Makes `text`, which stands at `start` in its file, what it is after data was written at `position`.
void overlay(std::string& text, std::int64_t start, const std::string& data, std::int64_t position) {
  auto begin = std::max(start, position);
  auto end = std::min(start + std::ssize(text), position + std::ssize(data));
  if (begin < end) std::copy(data.begin() + (begin - position), data.begin() + (end - position), text.begin() + (begin - start));
}

// The same, after the file was cut to `size`: what is written behind it later is preceded by zeros.
void clear_from(std::string& text, std::int64_t start, std::int64_t size) {
  auto kept = std::clamp<std::int64_t>(size - start, 0, std::ssize(text));
  std::fill(text.begin() + kept, text.end(), '\0');
}

}  // namespace

// One way in which a power failure may turn out.
class RecordingSystem::PowerCut {
 public:
  PowerCut(const RecordingSystem& system, std::uint64_t seed)
      : system_(system),
        extreme_(seed % 8 == 0   ? Extreme::nothing_kept
                 : seed % 8 == 1 ? Extreme::all_kept
                                 : Extreme::no) {
    random_.seed(seed);
  }

  Tree names() {
    Tree tree = system_.synced_;
    std::vector<const NameChange*> lost;
    std::bernoulli_distribution keep(std::uniform_real_distribution<>(0.3, 1.0)(random_));
    for (const auto& change : system_.unsynced_) {
      bool kept = extreme_ == Extreme::no ? keep(random_) : extreme_ == Extreme::all_kept;
      kept = kept && std::none_of(lost.begin(), lost.end(), [&](auto* earlier) { return system_.depends(change, *earlier); });
      if (kept)
        apply(tree, change);
      else
        lost.push_back(&change);
    }
    return tree;
  }

  std::string data(const Node& node) {
    const auto& changes = node.unsynced;
    const auto size_time = moment(changes.size());
    // Data written after a truncation that was lost never got its place in the file.
    const auto cut = std::find_if(changes.begin() + static_cast<std::ptrdiff_t>(size_time), changes.end(),
                                  [](const DataChange& change) { return !change.data; });
    const auto latest = static_cast<std::size_t>(cut - changes.begin());
    std::string result(static_cast<std::size_t>(size(node, size_time)), '\0');
    for (std::int64_t start = 0; start < std::ssize(result); start += page_size) {
      auto page = page_at(node, start, moment(latest), size_time);
      overlay(result, 0, page, start);
    }
    return result;
  }

  void build(const Tree& tree, NodeNumber directory, const std::string& path) {
    std::filesystem::create_directory(path);
    for (auto entry = tree.lower_bound({directory, {}}); entry != tree.end() && entry->first.directory == directory; ++entry) {
      auto below = path + "/" + entry->first.name;
      const Node& node = system_.nodes_[entry->second];
      if (node.is_directory) {
        build(tree, entry->second, below);
      } else {
        std::ofstream file(below, std::ios::binary);
        file << data(node);
        if (!file.flush()) throw std::runtime_error("power cut: write " + below);
      }
    }
  }

 private:
  enum class Extreme { no, all_kept, nothing_kept };
  static constexpr std::int64_t page_size = 4096;

  // How many of `count` changes had been made.
  std::size_t moment(std::size_t count) {
    if (extreme_ != Extreme::no) return extreme_ == Extreme::all_kept ? count : 0;
    switch (std::uniform_int_distribution<int>(0, 3)(random_)) {
      case 0:
        return 0;
      case 1:
        return count;
      default:
        return std::uniform_int_distribution<std::size_t>(0, count)(random_);
    }
  }

  static std::int64_t size_after(const Node& node, std::size_t count) {
    std::int64_t size = std::ssize(node.synced);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& change = node.unsynced[i];
      size = change.data ? std::max(size, change.position + std::ssize(*change.data)) : change.position;
    }
    return size;
  }

  // A write that makes the file longer may have got half of the way.
  std::int64_t size(const Node& node, std::size_t time) {
    auto now = size_after(node, time);
    bool write_follows = time < node.unsynced.size() && node.unsynced[time].data;
    if (extreme_ != Extreme::no || !write_follows) return now;
    return std::uniform_int_distribution<std::int64_t>(now, size_after(node, time + 1))(random_);
  }

  // The page that starts at `start` as it was after `data_time` changes, truncations up to `size_time` included.
  static std::string page_at(const Node& node, std::int64_t start, std::size_t data_time, std::size_t size_time) {
    std::string page(page_size, '\0');
    overlay(page, start, node.synced, 0);
    for (std::size_t i = 0; i < std::max(data_time, size_time); ++i) {
      const auto& change = node.unsynced[i];
      if (!change.data)
        clear_from(page, start, change.position);
      else if (i < data_time)
        overlay(page, start, *change.data, change.position);
    }
    return page;
  }

  const RecordingSystem& system_;
  const Extreme extreme_;
  std::mt19937_64 random_;
};

RecordingSystem::RecordingSystem(const std::string& root) {
  auto id = id_of(root);
  if (!id) throw std::runtime_error("recording system: no directory " + root);
  adopt(add_node(*id, true), root);
}

void RecordingSystem::power_cut(const std::string& destination, std::uint64_t seed) const {
  std::lock_guard guard(mutex_);
  PowerCut cut(*this, seed);
  cut.build(cut.names(), 0, destination);
}

RecordingSystem::NodeNumber RecordingSystem::add_node(const os::FileId& id, bool is_directory) {
  nodes_.push_back({.is_directory = is_directory, .id = id, .synced = {}, .unsynced = {}});
  return known_[id] = nodes_.size() - 1;
}

void RecordingSystem::adopt(NodeNumber directory, const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    auto id = id_of(entry.path());
    if (!id) continue;
    auto node = add_node(*id, entry.is_directory());
    Place place{directory, entry.path().filename()};
    current_[place] = synced_[place] = node;
    if (entry.is_directory())
      adopt(node, entry.path());
    else
      nodes_[node].synced = contents_of(entry.path());
  }
}

std::optional<RecordingSystem::NodeNumber> RecordingSystem::node_of(const os::FileId& id) const {
  auto found = known_.find(id);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<RecordingSystem::NodeNumber> RecordingSystem::node_of(int fd) const {
  struct stat found;
  return ::fstat(fd, &found) == 0 ? node_of(os::status_from(found).id) : std::nullopt;
}

std::optional<RecordingSystem::Place> RecordingSystem::place_of(const std::string& path) const {
  std::filesystem::path whole(path);
  if (!whole.has_filename()) whole = whole.parent_path();  // a/b/
  auto parent = id_of(whole.has_parent_path() ? whole.parent_path().string() : ".");
  auto directory = parent ? node_of(*parent) : std::nullopt;
  return directory ? std::optional(Place{*directory, whole.filename()}) : std::nullopt;
}

void RecordingSystem::apply(Tree& tree, const NameChange& change) {
  if (change.from) tree.erase(*change.from);
  if (change.to) tree[*change.to] = change.node;
}

bool RecordingSystem::concerns(const NameChange& change, NodeNumber directory) const {
  return (change.from && change.from->directory == directory) || (change.to && change.to->directory == directory);
}

// `later` cannot survive without `earlier`: it concerns one of the same names, or removes the directory that they are in.
bool RecordingSystem::depends(const NameChange& later, const NameChange& earlier) const {
  auto names = [&](const std::optional<Place>& place) { return place && (place == earlier.from || place == earlier.to); };
  bool removes_directory = !later.to && nodes_[later.node].is_directory;
  return names(later.from) || names(later.to) || (removes_directory && concerns(earlier, later.node));
}

void RecordingSystem::record(NameChange change) {
  auto goes = current_.find(change.to ? *change.to : *change.from);  // replaced, or removed
  if (goes != current_.end()) known_.erase(nodes_[goes->second].id);
  apply(current_, change);
  unsynced_.push_back(std::move(change));
}

void RecordingSystem::make(const std::string& path, const os::FileId& id, bool is_directory) {
  auto place = place_of(path);
  if (place && !current_.contains(*place)) record({.node = add_node(id, is_directory), .from = {}, .to = place});
}

int RecordingSystem::open(const char* path, int flags, mode_t mode) {
  std::lock_guard guard(mutex_);
  int fd = System::open(path, flags, mode);
  struct stat found;
  if (fd < 0 || (flags & O_CREAT) == 0 || ::fstat(fd, &found) != 0) return fd;
  make(path, os::status_from(found).id, false);
  auto node = node_of(fd);
  if (node && (flags & O_TRUNC) != 0) nodes_[*node].unsynced.push_back({.position = 0, .data = {}});
  return fd;
}

ssize_t RecordingSystem::pwrite(int fd, const void* data, size_t size, off_t position) {
  std::lock_guard guard(mutex_);
  ssize_t written = System::pwrite(fd, data, size, position);
  auto node = node_of(fd);
  if (node && written > 0)
    nodes_[*node].unsynced.push_back({position, std::string(static_cast<const char*>(data), static_cast<size_t>(written))});
  return written;
}

int RecordingSystem::ftruncate(int fd, off_t size) {
  std::lock_guard guard(mutex_);
  int result = System::ftruncate(fd, size);
  auto node = node_of(fd);
  if (node && result == 0) nodes_[*node].unsynced.push_back({.position = size, .data = {}});
  return result;
}

int RecordingSystem::fdatasync(int fd) {
  return synced(fd, [&] { return System::fdatasync(fd); });
}

int RecordingSystem::fsync(int fd) {
  return synced(fd, [&] { return System::fsync(fd); });
}

int RecordingSystem::synced(int fd, const std::function<int()>& call) {
  std::unique_lock lock(mutex_);
  auto number = node_of(fd);
  if (!number) return call();
  auto visit = [&](Moment moment) {
    lock.unlock();
    if (hook_) hook_(moment);
    lock.lock();
  };
  visit(Moment::before_sync);
  int result = call();
  if (result != 0) return result;
  if (nodes_[*number].is_directory) {
    sync_names(*number);
  } else {
    auto& node = nodes_[*number];
    for (auto& change : node.unsynced) {
      auto end = change.position + (change.data ? std::ssize(*change.data) : 0);
      if (!change.data || end > std::ssize(node.synced)) node.synced.resize(static_cast<std::size_t>(end));
      if (change.data) overlay(node.synced, 0, *change.data, change.position);
    }
    node.unsynced.clear();
  }
  visit(Moment::after_sync);
  return result;
}

void RecordingSystem::sync_names(NodeNumber directory) {
  std::vector<NameChange> kept, pending;
  for (auto change = unsynced_.rbegin(); change != unsynced_.rend(); ++change) {
    bool durable = concerns(*change, directory) ||
                   std::any_of(kept.begin(), kept.end(), [&](const auto& later) { return depends(later, *change); });
    (durable ? kept : pending).push_back(*change);
  }
  std::for_each(kept.rbegin(), kept.rend(), [&](const auto& change) { apply(synced_, change); });
  unsynced_.assign(pending.rbegin(), pending.rend());
}

int RecordingSystem::rename(const char* from, const char* to) {
  std::lock_guard guard(mutex_);
  auto source = place_of(from);
  auto target = place_of(to);
  int result = System::rename(from, to);
  if (result != 0 || (!source && !target)) return result;
  if (!source || !target) throw std::logic_error("recording system: rename across the root");
  auto node = current_.find(*source);
  if (node != current_.end() && *source != *target) record({.node = node->second, .from = source, .to = target});
  return result;
}

int RecordingSystem::remove(const std::string& path, const std::function<int()>& call) {
  std::lock_guard guard(mutex_);
  auto place = place_of(path);
  int result = call();
  if (result != 0 || !place) return result;
  auto node = current_.find(*place);
  if (node != current_.end()) record({.node = node->second, .from = place, .to = {}});
  return result;
}

int RecordingSystem::unlink(const char* path) {
  return remove(path, [&] { return System::unlink(path); });
}

int RecordingSystem::rmdir(const char* path) {
  return remove(path, [&] { return System::rmdir(path); });
}

int RecordingSystem::mkdir(const char* path, mode_t mode) {
  std::lock_guard guard(mutex_);
  int result = System::mkdir(path, mode);
  if (auto id = result == 0 ? id_of(path) : std::nullopt) make(path, *id, true);
  return result;
}

}  // namespace partlog::test

// Systems that fail on purpose, to be put in force with os::ScopedSystem.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "os/file.h"
#include "os/system.h"

namespace partlog::test {

// Counts calls and makes one of them fail; everything else goes on to the system below (the kernel, if none is given).
//
//   for (long n = 1;; ++n) {
//     FailingSystem faulty;
//     faulty.fail(n, EIO);
//     { os::ScopedSystem scoped(faulty); …the operation… }
//     if (!faulty.fired()) break;  // n is past the last call
//     …what must hold all the same…
//   }
class FailingSystem : public os::System {
 public:
  enum class Count {
    all,      // every call; a close that fails has closed all the same
    changes,  // calls that change what is stored or make it durable
    writes,   // pwrite only
  };

  explicit FailingSystem(Count count = Count::all) : count_(count) {}
  FailingSystem(os::System& below, Count count = Count::all) : count_(count), below_(&below) {}

  // The n-th call (from 1) of those counted fails with `error`; with `for_good` every later one too.
  void fail(long nth, int error, bool for_good = false);
  // The n-th pwrite writes half of its bytes (a single byte fails at once), and the next one fails with `error`.
  void shorten_write(long nth, int error);

  // Before the n-th call, which then succeeds as it would have.
  void before(long nth, std::function<void()> action);

  long calls() const;
  bool fired() const;  // the fault, or the action, has been met

  int open(const char* path, int flags, mode_t mode) override;
  int close(int fd) override;
  ssize_t pread(int fd, void* data, size_t size, off_t position) override;
  ssize_t pwrite(int fd, const void* data, size_t size, off_t position) override;
  int ftruncate(int fd, off_t size) override;
  int fallocate(int fd, int mode, off_t position, off_t size) override;
  int fdatasync(int fd) override;
  int fsync(int fd) override;
  int fstat(int fd, struct stat* status) override;
  int stat(const char* path, struct stat* status) override;
  int lstat(const char* path, struct stat* status) override;
  int rename(const char* from, const char* to) override;
  int link(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, mode_t mode) override;
  int rmdir(const char* path) override;

 private:
  enum class Kind { read, change, write };
  // True: the call that asks is to fail, and errno is set.
  bool fails(Kind kind);

  const Count count_;
  os::System kernel_;
  os::System* below_ = &kernel_;
  mutable std::mutex mutex_;
  long calls_ = 0;
  long writes_ = 0;  // since shorten_write
  long nth_ = 0;     // 0: none
  int error_ = 0;
  bool for_good_ = false;
  bool shorten_ = false;
  bool shortened_ = false;
  bool fired_ = false;
  std::function<void()> action_;
};

// Passes everything on to the kernel and remembers, for the files and directories below one root, what would survive a power
// failure: of a file what was there at its last fsync or fdatasync, of a directory the names that were there at its last fsync.
// What stands below the root at the beginning counts as synced. Changes must come through this object (or another process's will
// be missing). Safe from several threads.
class RecordingSystem : public os::System {
 public:
  enum class Moment { before_sync, after_sync };

  explicit RecordingSystem(const std::string& root);

  // Called around every sync of something below the root, in the thread that syncs; may call power_cut.
  void set_hook(std::function<void(Moment)> hook) { hook_ = std::move(hook); }

  // Builds in `destination` (made; must not be below the root) what a power failure at this moment might leave:
  // - file data: synced data is kept; a page of 4 KiB that was written since has the contents of any moment since (bytes that
  // were
  //   never written back are zeros); the size is that of any moment since, or between two of them;
  // - names: any of the unsynced creations, renames and removals are lost, together with all later ones of the same names and
  //   with removals of directories that they concern; a rename happens wholly or not at all.
  // The same seed gives the same state. One seed in eight loses everything unsynced, one in eight nothing.
  void power_cut(const std::string& destination, std::uint64_t seed) const;

  int open(const char* path, int flags, mode_t mode) override;
  ssize_t pwrite(int fd, const void* data, size_t size, off_t position) override;
  int ftruncate(int fd, off_t size) override;
  int fdatasync(int fd) override;
  int fsync(int fd) override;
  int rename(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, mode_t mode) override;
  int rmdir(const char* path) override;

 private:
  using NodeNumber = std::size_t;  // in `nodes_`; the root's is 0
  struct DataChange {
    std::int64_t position = 0;        // of the data, or the new size
    std::optional<std::string> data;  // nullopt: a truncation
  };
  struct Node {
    bool is_directory = false;
    os::FileId id;
    std::string synced;  // data that survives for certain
    std::vector<DataChange> unsynced;
  };
  // A name in a directory.
  struct Place {
    NodeNumber directory = 0;
    std::string name;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // A creation has only `to`, a removal only `from`, a rename both.
  struct NameChange {
    NodeNumber node = 0;
    std::optional<Place> from, to;
  };
  using Tree = std::map<Place, NodeNumber>;
  class PowerCut;

  static void apply(Tree& tree, const NameChange& change);
  bool concerns(const NameChange& change, NodeNumber directory) const;
  bool depends(const NameChange& later, const NameChange& earlier) const;
  NodeNumber add_node(const os::FileId& id, bool is_directory);
  void adopt(NodeNumber directory, const std::string& path);
  std::optional<NodeNumber> node_of(const os::FileId& id) const;
  std::optional<NodeNumber> node_of(int fd) const;
  std::optional<Place> place_of(const std::string& path) const;
  void make(const std::string& path, const os::FileId& id, bool is_directory);
  void record(NameChange change);
  int remove(const std::string& path, const std::function<int()>& call);
  int synced(int fd, const std::function<int()>& call);
  void sync_names(NodeNumber directory);

  mutable std::mutex mutex_;
  std::function<void(Moment)> hook_;
  std::vector<Node> nodes_;
  std::map<os::FileId, NodeNumber> known_;  // what has a name below the root
  Tree current_;                            // all names, as the kernel has them
  Tree synced_;                             // as they survive for certain
  std::vector<NameChange> unsynced_;        // from `synced_` to `current_`, in order
};

}  // namespace partlog::test

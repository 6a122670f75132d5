// The one descriptor that this process has of a lock file, and the registry that sees to it that it is the only one.
// Private to os/; file_lock.h is the interface.
#pragma once

#include <atomic>
#include <boost/interprocess/sync/file_lock.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "os/file.h"

namespace partlog::os {

// Shared by everything in the process that uses the file. Its end closes the descriptor.
struct LockEntry {
  // Takes the descriptor over.
  LockEntry(FileId file, int descriptor);
  LockEntry(const LockEntry&) = delete;
  LockEntry& operator=(const LockEntry&) = delete;
  ~LockEntry();

  int descriptor() const;

  const FileId id;
  bool registered = false;
  boost::interprocess::file_lock kernel_lock;
  std::atomic<bool> held = false;  // by this process

  // The mutex in front, with time-outs and a stop flag: `occupied` by the thread that has the lock or is waiting for the
  // kernel's.
  std::mutex mutex;
  std::condition_variable vacated;
  bool occupied = false;
};

// All functions may wait for the file system (an open), one thread of the process at a time: whoever opens or closes a descriptor
// of a lock file holds the registry's mutex, so that no descriptor is closed while another thread gets hold of the same file.
class LockRegistry {
 public:
  static LockRegistry& instance();

  // See FileLock::open.
  std::shared_ptr<LockEntry> open(const std::string& path, bool create);
  // See lock_holder.
  std::optional<int> holder(const std::string& path);
  // Closes the descriptor of an entry that nobody refers to any more.
  void close(LockEntry& entry);

 private:
  using Lock = std::unique_lock<std::mutex>;
  std::shared_ptr<LockEntry> find(Lock& lock, const FileId& id);
  std::shared_ptr<LockEntry> enrol(const FileId& id, int descriptor);

  std::mutex mutex_;
  std::condition_variable closed_;
  std::map<FileId, std::weak_ptr<LockEntry>> entries_;
};

// As lock_holder, for a file that this process has open.
std::optional<int> holder_of(const LockEntry& entry, const std::string& path);

}  // namespace partlog::os

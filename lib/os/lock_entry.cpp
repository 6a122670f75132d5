#include "os/lock_entry.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "os/failure.h"
#include "os/system.h"

namespace partlog::os {

namespace {

// Boost's constructor opens by name and not close-on-exec; setting the flag afterwards would leave a moment in which another
// thread's fork and exec lets the descriptor out. So the descriptor is opened here and put into an empty file_lock. The member
// is private; an explicit instantiation may name it all the same (C++20 [temp.spec]/6), and fails to compile should it change.
struct Handle {
  using Member = boost::interprocess::file_handle_t boost::interprocess::file_lock::*;
  friend Member member_of(Handle);
};
template <class Tag, typename Tag::Member member>
struct Expose {
  friend typename Tag::Member member_of(Tag) { return member; }
};
template struct Expose<Handle, &boost::interprocess::file_lock::m_file_hnd>;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Names a file without opening it: closing such a descriptor drops no lock.
int open_name(const std::string& path) {
  return uninterrupted([&] { return ::open(path.c_str(), O_PATH | O_CLOEXEC); });
}

// Opens the very file that `name` names, whatever stands at its path by now.
int open_named(const Descriptor& name, int flags) {
  auto link = "/proc/self/fd/" + std::to_string(name.get());
  return uninterrupted([&] { return ::open(link.c_str(), flags | O_CLOEXEC); });
}

// Before the file itself is opened: that of a pipe would wait for its other end, that of a device may do anything.
FileId id_of(const Descriptor& descriptor, const std::string& path) {
  struct stat found;
  if (::fstat(descriptor.get(), &found) != 0) fail("stat " + path, errno);
  const auto status = status_from(found);
  if (status.is_directory) fail("open " + path, EISDIR);
  if (!status.is_regular) throw Error(ErrorCode::io, "open " + path + ": not a regular file");
  return status.id;
}

// Closing the new file's descriptor drops nobody's lock: O_EXCL says that nobody had it open before, and no other thread of this
// process opens a lock file meanwhile (the registry's mutex).
void create(const std::string& path) {
  int fd = uninterrupted([&] { return system().open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (fd >= 0)
    system().close(fd);
  else if (errno != EEXIST)
    fail("open " + path, errno);
}

std::optional<int> ask_kernel(int descriptor, const std::string& path) {
  struct flock question{};
  question.l_type = F_WRLCK;
  question.l_whence = SEEK_SET;
  if (uninterrupted([&] { return ::fcntl(descriptor, F_GETLK, &question); }) != 0) fail("ask who locks " + path, errno);
  if (question.l_type == F_UNLCK) return std::nullopt;
  return question.l_pid > 0 ? question.l_pid : 0;  // other hosts and other pid namespaces: 0 or negative
}

constexpr int attempts = 100;  // at a file that others remove and make again

}  // namespace

LockEntry::LockEntry(FileId file, int descriptor) : id(file) { kernel_lock.*member_of(Handle{}) = descriptor; }

LockEntry::~LockEntry() {
  if (registered) LockRegistry::instance().close(*this);
}

int LockEntry::descriptor() const { return kernel_lock.*member_of(Handle{}); }

LockRegistry& LockRegistry::instance() {
  static LockRegistry* registry = new LockRegistry;  // never destroyed: locks may outlive it otherwise
  return *registry;
}

// nullptr if the process has not got the file open. An entry on its way out is waited for: its descriptor, closed later, would
// take the lock of a new one with it.
std::shared_ptr<LockEntry> LockRegistry::find(Lock& lock, const FileId& id) {
  for (;;) {
    auto found = entries_.find(id);
    if (found == entries_.end()) return nullptr;
    if (auto entry = found->second.lock()) return entry;
    closed_.wait(lock);
  }
}

std::shared_ptr<LockEntry> LockRegistry::enrol(const FileId& id, int descriptor) {
  auto entry = std::make_shared<LockEntry>(id, descriptor);
  entries_.emplace(id, entry);
  entry->registered = true;  // only now: if emplace throws, the entry must not ask for the mutex that is held here
  return entry;
}

std::shared_ptr<LockEntry> LockRegistry::open(const std::string& path, bool make) {
  Lock lock(mutex_);
  for (int attempt = 0;; ++attempt) {
    Descriptor name(open_name(path));
    if (!name && errno == ENOENT && make && attempt < attempts) {
      create(path);
      continue;
    }
    if (!name) fail("open " + path, errno);
    auto id = id_of(name, path);
    if (auto entry = find(lock, id)) return entry;
    Descriptor file(open_named(name, O_RDWR));
    if (file) return enrol(id, file.release());
    bool replaced = errno == ENOENT || errno == ESTALE;  // on another host, meanwhile
    if (!replaced || attempt == attempts) fail("open " + path, errno);
  }
}

std::optional<int> LockRegistry::holder(const std::string& path) {
  std::shared_ptr<LockEntry> entry;  // before the lock: to let go of an entry may need the mutex
  Lock lock(mutex_);
  Descriptor name(open_name(path));
  if (!name && is_absent(errno)) return std::nullopt;
  if (!name) fail("open " + path, errno);
  entry = find(lock, id_of(name, path));
  if (entry) return holder_of(*entry, path);
  // Not registered, so this process has no lock on it that closing would drop.
  Descriptor file(open_named(name, O_RDONLY));
  if (!file && (is_absent(errno) || errno == ESTALE)) return std::nullopt;
  if (!file) fail("open " + path, errno);
  return ask_kernel(file.get(), path);
}

void LockRegistry::close(LockEntry& entry) {
  Lock lock(mutex_);
  entry.kernel_lock = boost::interprocess::file_lock();
  entries_.erase(entry.id);
  closed_.notify_all();
}

std::optional<int> holder_of(const LockEntry& entry, const std::string& path) {
  if (entry.held) return ::getpid();  // the kernel never names the process that asks
  return ask_kernel(entry.descriptor(), path);
}

}  // namespace partlog::os

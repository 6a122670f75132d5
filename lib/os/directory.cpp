#include "os/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "os/failure.h"
#include "os/patience.h"
#include "os/system.h"

namespace partlog::os {

namespace {

constexpr int attempts = 100;  // for operations that others disturb by making or removing entries meanwhile

// "a/b" of "a/b/c" and of "a/b//c/"; empty if there is none to be made.
std::string parent_of(const std::string& path) {
  auto end = path.find_last_not_of('/');
  if (end == std::string::npos) return {};
  auto slash = path.find_last_of('/', end);
  if (slash == std::string::npos) return {};
  auto last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? std::string() : path.substr(0, last + 1);
}

// False if the path was a directory when it was looked at.
bool unlink_unless_directory(const std::string& path) {
  if (system().unlink(path.c_str()) == 0 || is_absent(errno)) return true;
  int error = errno;
  if (error == EISDIR) return false;
  auto status = error == EPERM ? status_of(path) : std::nullopt;  // what POSIX says, and some file systems
  if (status && status->is_directory) return false;
  fail("remove " + path, error);
}

void remove_entries(const std::string& path) {
  std::vector<std::string> names;
  try {
    names = list_directory(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return;
    throw;
  }
  for (const auto& name : names) remove_tree(path + "/" + name);
}

// A new file beside `path`, removed again unless it was renamed to `path`.
class TemporaryFile {
 public:
  // Names differ between threads and processes; a name that another host or a killed process with the same number uses is passed
  // over.
  static TemporaryFile beside(const std::string& path) { return TemporaryFile(create(path)); }
  // A name that no other process uses now; what a killed one left under it is removed.
  static TemporaryFile named(const std::string& name) {
    for (int attempt = 0;; ++attempt) {
      try {
        return TemporaryFile(File::open(name, File::Mode::create_new));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::already_exists || attempt == attempts) throw;
      }
      remove_file(name);
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!renamed_) system().unlink(file_.path().c_str());
  }
  File& file() { return file_; }
  void rename_to(const std::string& path) {
    rename_path(file_.path(), path);
    renamed_ = true;
  }

 private:
  explicit TemporaryFile(File file) : file_(std::move(file)) {}
  static File create(const std::string& path) {
    static std::atomic<unsigned> counter{0};
    auto prefix = path + ".tmp" + std::to_string(::getpid()) + ".";
    for (int attempt = 0;; ++attempt) {
      try {
        return File::open(prefix + std::to_string(counter++), File::Mode::create_new);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::already_exists || attempt == attempts) throw;
      }
    }
  }

  File file_;
  bool renamed_ = false;
};

std::optional<std::string> read_whole(const std::string& path, std::size_t limit) {
  auto file = File::open_if_exists(path, File::Mode::read);
  if (!file) return std::nullopt;
  constexpr std::size_t least = 4095;  // files of /proc have size 0
  std::string contents(std::min(std::max(static_cast<std::size_t>(file->size()), least), limit) + 1, '\0');
  std::size_t done = 0;
  while ((done += file->read_at(std::span(contents).subspan(done), static_cast<std::int64_t>(done))) == contents.size()) {
    if (done > limit) throw Error(ErrorCode::damaged, path + ": larger than " + std::to_string(limit) + " bytes");
    contents.resize(std::min(2 * contents.size(), limit + 1));  // it grew
  }
  contents.resize(done);
  return contents;
}

template <class Call>
std::optional<FileStatus> status_by(Call call, const std::string& path) {
  struct stat found;
  if (patiently(path, [&] { return call(&found); }) == 0) return status_from(found);
  if (is_absent(errno)) return std::nullopt;
  fail("stat " + path, errno);
}

}  // namespace

std::optional<std::string> absolute_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> absolute(::realpath(path.c_str(), nullptr), &std::free);
  return absolute ? std::optional<std::string>(absolute.get()) : std::nullopt;
}

std::optional<FileStatus> status_of(const std::string& path) {
  try {
    return status_by([&](struct stat* found) { return system().stat(path.c_str(), found); }, path);
  } catch (const Error& error) {
    if ((error.system_error() != ELOOP && error.system_error() != ENAMETOOLONG) || !status_of_link(path)) throw;
    return std::nullopt;
  }
}

std::optional<FileStatus> status_of_link(const std::string& path) {
  return status_by([&](struct stat* found) { return system().lstat(path.c_str(), found); }, path);
}

std::vector<std::string> list_directory(const std::string& path) {
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  std::vector<std::string> names;
  const auto read = [&] {
    names.clear();
    const std::unique_ptr<DIR, Close> directory(::opendir(path.c_str()));
    if (!directory) return -1;
    for (errno = 0; const dirent* entry = ::readdir(directory.get()); errno = 0) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    return errno == 0 ? 0 : -1;
  };
  if (patiently(path, read) != 0) fail("list " + path, errno);
  return names;
}

void make_directory(const std::string& path) {
  if (system().mkdir(path.c_str(), 0777) != 0) fail("make directory " + path, errno);
}

TemporaryDirectory::TemporaryDirectory() {
  const char* parent = std::getenv("TMPDIR");
  path_ = std::string(parent != nullptr && *parent != '\0' ? parent : "/tmp") + "/partlog-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) fail("make directory " + path_, errno);
}

TemporaryDirectory::~TemporaryDirectory() {
  try {
    remove_tree(path_);
  } catch (const Error&) {
    // Whoever has removed it first.
  }
}

void require_writable(const std::string& directory, const std::string& operation) {
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) fail(operation, errno);
}

void make_directories(const std::string& path) {
  for (int attempt = 0;; ++attempt) {
    auto status = status_of(path);
    if (status && status->is_directory) return;
    auto parent = parent_of(path);
    if (!status && !parent.empty()) make_directories(parent);
    if (system().mkdir(path.c_str(), 0777) == 0) return;
    // Someone else was faster, or removed the parent again.
    bool disturbed = !status && (errno == EEXIST || (errno == ENOENT && !parent.empty()));
    if (!disturbed || attempt == attempts) fail("make directory " + path, errno);
  }
}

void rename_path(const std::string& from, const std::string& to) {
  if (system().rename(from.c_str(), to.c_str()) != 0) fail("rename " + from + " to " + to, errno);
}

void link_or_copy(const std::string& from, const std::string& to) {
  const auto status = status_of_link(from);
  if (status && !status->is_regular) return copy_file(from, to);  // a link to a file may lead elsewhere from where `to` is
  if (system().link(from.c_str(), to.c_str()) == 0) return;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK && errno != EXDEV) fail("link " + from + " to " + to, errno);
  copy_file(from, to);
}

void copy_file(const std::string& from, const std::string& to) { copy_into(from, File::open(to, File::Mode::create_new)); }

void copy_into(const std::string& from, File to) {
  constexpr std::size_t piece_size = 1 << 20;
  const auto source = File::open(from, File::Mode::read);
  to.truncate(0);
  std::vector<char> bytes(piece_size);
  std::int64_t at = 0;
  while (const auto got = source.read_at(bytes, at)) {
    to.write_at(std::span<const char>(bytes).first(got), at);
    at += static_cast<std::int64_t>(got);
  }
  to.sync_data();
}

void copy_access(const std::string& from, const std::string& to) {
  struct stat wanted{};
  struct stat now{};
  if (::stat(from.c_str(), &wanted) != 0) fail("stat " + from, errno);
  if (::stat(to.c_str(), &now) != 0) fail("stat " + to, errno);
  const auto is_permitted = [&](int result) {
    if (result != 0 && errno != EPERM && errno != EINVAL && errno != EOPNOTSUPP) fail("change the access of " + to, errno);
    return result == 0;
  };
  // The owner before the mode, of which a change of the owner takes away bits.
  if (now.st_uid != wanted.st_uid || now.st_gid != wanted.st_gid) {
    constexpr auto same = static_cast<uid_t>(-1);
    if (!is_permitted(::chown(to.c_str(), wanted.st_uid, wanted.st_gid))) {
      is_permitted(::chown(to.c_str(), same, wanted.st_gid));
    }
  }
  constexpr mode_t all = 07777;
  if ((now.st_mode & all) != (wanted.st_mode & all)) is_permitted(::chmod(to.c_str(), wanted.st_mode & all));
}

bool remove_file(const std::string& path) {
  if (system().unlink(path.c_str()) == 0) return true;
  if (is_absent(errno)) return false;
  fail("remove " + path, errno);
}

void remove_tree(const std::string& path) {
  if (unlink_unless_directory(path)) return;
  for (int attempt = 0;; ++attempt) {
    remove_entries(path);
    if (system().rmdir(path.c_str()) == 0 || is_absent(errno)) return;
    bool disturbed = errno == ENOTEMPTY || errno == EEXIST;
    if (!disturbed || attempt == attempts) fail("remove directory " + path, errno);
  }
}

void sync_directory(const std::string& path) {
  int fd = uninterrupted([&] { return system().open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) fail("open " + path, errno);
  int error = uninterrupted([&] { return system().fsync(fd); }) == 0 ? 0 : errno;
  system().close(fd);
  // EINVAL: a file system that cannot sync directories (some SMB and FUSE ones), and has no other way to offer.
  if (error != 0 && error != EINVAL) fail("sync " + path, error);
}

std::optional<std::string> read_file(const std::string& path, std::size_t limit) {
  for (int attempt = 0;; ++attempt) {
    try {
      return read_whole(path, limit);
    } catch (const Error& error) {
      // NFS: another host put a new file in place between our open and read.
      if (error.system_error() != ESTALE || attempt == attempts) throw;
    }
  }
}

static void replace(TemporaryFile temporary, const std::string& path, std::string_view contents, bool durable,
                    const std::function<void()>& check = {}) {
  temporary.file().write_at(contents, 0);
  if (durable) temporary.file().sync_data();
  temporary.file().close();
  if (check) check();
  temporary.rename_to(path);
  if (!durable) return;
  auto parent = parent_of(path);
  sync_directory(!parent.empty() ? parent : path.starts_with('/') ? "/" : ".");
}

void replace_file(const std::string& path, std::string_view contents, bool durable) {
  replace(TemporaryFile::beside(path), path, contents, durable);
}

// The temporary file is gone where others had the lock meanwhile, or where one who had lost it took ours for its own.
void replace_locked_file(const std::string& path, std::string_view contents, bool durable, const std::function<void()>& check) {
  for (int attempt = 0;; ++attempt) {
    try {
      return replace(TemporaryFile::named(path + ".tmp"), path, contents, durable, check);
    } catch (const Error& error) {
      if (!check || error.code() != ErrorCode::not_found || attempt == attempts) throw;
    }
  }
}

void replace_file_through(const std::string& temporary, const std::string& path, std::string_view contents) {
  replace(TemporaryFile::named(temporary), path, contents, false);
}

// All who do it use the same name, so that those who are killed leave at most one file behind, and so that of several at once one
// renames the file, whoever made it, and the others find none.
bool renew_empty_file(const std::string& path, const std::function<bool()>& is_due) {
  try {
    auto temporary = TemporaryFile::named(path + ".tmp");
    temporary.file().close();  // before others can lock it: closed later, it would take this process's lock with it
    copy_access(path, path + ".tmp");
    if (!is_due()) return false;
    temporary.rename_to(path);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return false;
  }
}

}  // namespace partlog::os

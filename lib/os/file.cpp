#include "os/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/failure.h"
#include "os/patience.h"
#include "os/system.h"

namespace partlog::os {

namespace {

int flags_of(File::Mode mode) {
  switch (mode) {
    case File::Mode::read:
      return O_RDONLY;
    case File::Mode::write:
      return O_RDWR;
    case File::Mode::create:
      return O_RDWR | O_CREAT;
    case File::Mode::create_new:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

[[noreturn]] void fail_as_no_file(const std::string& path) {
  throw Error(ErrorCode::io, "open " + path + ": not a regular file");
}

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  if (error == ENXIO) fail_as_no_file(path);  // a socket, or a device that is not there
  fail("open " + path, error);
}

// What also writes may have lost its locks, and with them what can be read through its descriptor.
template <class Call>
auto repeated(bool only_reads, const std::string& path, Call call) {
  return only_reads ? patiently(path, call) : uninterrupted(call);
}

// A pipe is not waited for; File::open then refuses it.
int open_descriptor(const std::string& path, File::Mode mode) {
  const auto open = [&](int more) {
    return repeated(mode == File::Mode::read, path,
                    [&] { return system().open(path.c_str(), flags_of(mode) | O_CLOEXEC | O_NOCTTY | more, 0666); });
  };
  const int fd = open(O_NONBLOCK);
  if (fd >= 0 || errno != EWOULDBLOCK) return fd;
  // Only of a file is it said that one would have to wait: until a file server has given a lease back.
  return open(0);
}

void require_file(const File& file, File::Mode mode) {
  if (mode == File::Mode::create_new) return;
  struct stat found;
  const auto call = [&] { return system().fstat(file.descriptor(), &found); };
  if (repeated(mode == File::Mode::read, file.path(), call) != 0) fail("open " + file.path(), errno);
  if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) fail_as_no_file(file.path());
}

std::string at(const char* operation, const std::string& path, std::int64_t position) {
  return std::string(operation) + " " + path + " at position " + std::to_string(position);
}

}  // namespace

File File::open(const std::string& path, Mode mode) {
  const int fd = open_descriptor(path, mode);
  if (fd < 0) fail_to_open(path, errno);
  File file(fd, path, mode);
  require_file(file, mode);
  return file;
}

std::optional<File> File::open_if_exists(const std::string& path, Mode mode) {
  const int fd = open_descriptor(path, mode);
  if (fd < 0) {
    if (is_absent(errno)) return std::nullopt;
    fail_to_open(path, errno);
  }
  File file(fd, path, mode);
  require_file(file, mode);
  return file;
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), only_reads_(other.only_reads_) {}

File& File::operator=(File&& other) noexcept {
  File old(std::move(*this));
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  only_reads_ = other.only_reads_;
  return *this;
}

File::~File() {
  if (fd_ >= 0) system().close(fd_);
}

void File::close() {
  if (fd_ < 0) return;
  // After EINTR the descriptor is gone all the same.
  if (system().close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail("close " + path_, errno);
}

std::size_t File::read_at(std::span<char> into, std::int64_t position) const {
  std::size_t done = 0;
  while (done < into.size()) {
    auto from = position + static_cast<std::int64_t>(done);
    ssize_t got = repeated(only_reads_, path_, [&] { return system().pread(fd_, into.data() + done, into.size() - done, from); });
    if (got < 0) fail(at("read", path_, from), errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void File::write_at(std::span<const char> data, std::int64_t position) {
  while (!data.empty()) {
    ssize_t put = uninterrupted([&] { return system().pwrite(fd_, data.data(), data.size(), position); });
    if (put <= 0) fail(at("write", path_, position), put < 0 ? errno : ENOSPC);
    data = data.subspan(static_cast<std::size_t>(put));
    position += put;
  }
}

void File::truncate(std::int64_t size) {
  if (uninterrupted([&] { return system().ftruncate(fd_, size); }) != 0) fail(at("truncate", path_, size), errno);
}

bool File::preallocate(std::int64_t position, std::int64_t size) {
  return uninterrupted([&] { return system().fallocate(fd_, FALLOC_FL_KEEP_SIZE, position, size); }) == 0;
}

void File::sync_data() {
  if (uninterrupted([&] { return system().fdatasync(fd_); }) != 0) fail("sync " + path_, errno);
}

FileStatus File::status() const {
  struct stat found;
  if (repeated(only_reads_, path_, [&] { return system().fstat(fd_, &found); }) != 0) fail("stat " + path_, errno);
  return status_from(found);
}

FileStatus status_from(const struct stat& found) {
  return {.id = {found.st_dev, found.st_ino},
          .size = found.st_size,
          .allocated = found.st_blocks * 512,  // whatever the file system's blocks are
          .modified_ms = found.st_mtim.tv_sec * std::int64_t{1000} + found.st_mtim.tv_nsec / 1'000'000,
          .is_directory = S_ISDIR(found.st_mode),
          .is_regular = S_ISREG(found.st_mode)};
}

// Nothing here depends on the descriptor's own position.
std::int64_t File::end_of_hole(std::int64_t position) const {
  const auto data = ::lseek(fd_, position, SEEK_DATA);
  if (data >= 0) return data;
  return errno == ENXIO ? std::max(position, size()) : position;  // or the file system does not say
}

void File::drop_cached() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); }

Mapping::Mapping(const File& file, std::int64_t position, std::size_t size) {
  if (size == 0) return;
  auto lead = static_cast<std::size_t>(position % ::sysconf(_SC_PAGESIZE));
  length_ = lead + size;
  void* start = ::mmap(nullptr, length_, PROT_READ, MAP_SHARED, file.descriptor(), position - static_cast<off_t>(lead));
  if (start == MAP_FAILED) fail(at("map", file.path(), position), errno);
  start_ = start;
  bytes_ = {static_cast<const char*>(start) + lead, size};
}

Mapping::Mapping(Mapping&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)),
      length_(std::exchange(other.length_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  Mapping old(std::move(*this));
  start_ = std::exchange(other.start_, nullptr);
  length_ = std::exchange(other.length_, 0);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

Mapping::~Mapping() {
  if (start_ != nullptr) ::munmap(start_, length_);
}

}  // namespace partlog::os

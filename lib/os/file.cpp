#include "os/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "os/failure.h"
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

int open_descriptor(const std::string& path, File::Mode mode) {
  return uninterrupted([&] { return system().open(path.c_str(), flags_of(mode) | O_CLOEXEC, 0666); });
}

std::string at(const char* operation, const std::string& path, std::int64_t position) {
  return std::string(operation) + " " + path + " at position " + std::to_string(position);
}

}  // namespace

File File::open(const std::string& path, Mode mode) {
  int fd = open_descriptor(path, mode);
  if (fd < 0) fail("open " + path, errno);
  return File(fd, path);
}

std::optional<File> File::open_if_exists(const std::string& path, Mode mode) {
  int fd = open_descriptor(path, mode);
  if (fd >= 0) return File(fd, path);
  if (is_absent(errno)) return std::nullopt;
  fail("open " + path, errno);
}

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  File old(std::move(*this));
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
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
    ssize_t got = uninterrupted([&] { return system().pread(fd_, into.data() + done, into.size() - done, from); });
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
  if (system().fstat(fd_, &found) != 0) fail("stat " + path_, errno);
  return status_from(found);
}

FileStatus status_from(const struct stat& found) {
  return {.id = {found.st_dev, found.st_ino},
          .size = found.st_size,
          .modified_ms = found.st_mtim.tv_sec * std::int64_t{1000} + found.st_mtim.tv_nsec / 1'000'000,
          .is_directory = S_ISDIR(found.st_mode)};
}

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

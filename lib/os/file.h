// An open file. Every failure is an Error(io) (or not_found / already_exists where the code says so) that names operation, path,
// position and the system's reason. Close-on-exec always. A File may be used by several threads at once for reading.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace partlog::os {

// What a path names, independent of the path.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

struct FileStatus {
  FileId id;
  std::int64_t size = 0;
  std::int64_t allocated = 0;    // bytes of the device, holes not counted, reserved space counted
  std::int64_t modified_ms = 0;  // since 1970
  bool is_directory = false;
  bool is_regular = false;  // a file, no pipe, socket or device
};

FileStatus status_from(const struct stat& found);

class File {
 public:
  enum class Mode {
    read,        // must exist
    write,       // must exist; read and write
    create,      // read and write, made if absent
    create_new,  // read and write, Error(already_exists) if present
  };

  static File open(const std::string& path, Mode mode);
  // As open, but an absent file is nullopt.
  static std::optional<File> open_if_exists(const std::string& path, Mode mode);

  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  // Reads until the span is full or the file ends; returns the number of bytes read.
  std::size_t read_at(std::span<char> into, std::int64_t position) const;
  // Writes everything with as few calls as the kernel allows (normally one), or throws with part of it written.
  void write_at(std::span<const char> data, std::int64_t position);
  void truncate(std::int64_t size);
  // Reserves space behind the end without changing the size (FALLOC_FL_KEEP_SIZE); false where that is not possible (no
  // support, no space): never an error, since the write itself will tell.
  bool preallocate(std::int64_t position, std::int64_t size);
  void sync_data();  // fdatasync
  // Where the hole at this position ends, at most the end of the file; the position itself where none is known to be.
  std::int64_t end_of_hole(std::int64_t position) const;
  // What is kept of the file in this host's memory and not changed is read anew.
  void drop_cached() const;

  FileStatus status() const;
  std::int64_t size() const { return status().size; }
  int descriptor() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }
  // Throws if the file system reports only now that something could not be written; the destructor stays silent.
  void close();

 private:
  File(int fd, std::string path, Mode mode) : fd_(fd), path_(std::move(path)), only_reads_(mode == Mode::read) {}
  int fd_ = -1;
  std::string path_;
  bool only_reads_ = false;
};

// A read-only mapping of part of a file that nobody shortens (a segment that has a successor).
class Mapping {
 public:
  Mapping() = default;
  // `position` need not lie on a page boundary; the part must lie inside the file.
  Mapping(const File& file, std::int64_t position, std::size_t size);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::span<const char> bytes() const { return bytes_; }

 private:
  void* start_ = nullptr;
  std::size_t length_ = 0;
  std::span<const char> bytes_;
};

}  // namespace partlog::os

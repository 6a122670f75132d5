// Directories and whole small files. Errors as in file.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/file.h"

namespace partlog::os {

// stat(2) of a path; nullopt if nothing is there, or a link that leads nowhere.
std::optional<FileStatus> status_of(const std::string& path);
// The same of a symbolic link itself, where the path names one.
std::optional<FileStatus> status_of_link(const std::string& path);

// Without links, "." and ".."; nullopt if nothing is there, or it may not be looked up.
std::optional<std::string> absolute_path(const std::string& path);

// Error(io), as `operation` would fail, if this process may not make files in the directory.
void require_writable(const std::string& directory, const std::string& operation);

// Names in a directory, without "." and "..", in no particular order. Error(not_found) if there is no such directory.
std::vector<std::string> list_directory(const std::string& path);

void make_directory(const std::string& path);    // Error(already_exists) if something is there
void make_directories(const std::string& path);  // like mkdir -p
void rename_path(const std::string& from, const std::string& to);
// Another name for the same file; a copy of it, durable but for its name, where the file system has no such thing.
void link_or_copy(const std::string& from, const std::string& to);
// The same, always a copy; also in place of what an open file holds.
void copy_file(const std::string& from, const std::string& to);
void copy_into(const std::string& from, File to);
// Gives a file or directory the mode of another one, and its owner and group as far as this process may.
void copy_access(const std::string& from, const std::string& to);
bool remove_file(const std::string& path);  // false if it was not there
void remove_tree(const std::string& path);  // everything below, then itself; missing entries are fine
// Makes names that were made, renamed or removed in this directory durable.
void sync_directory(const std::string& path);

// A new directory for temporary files, in TMPDIR or /tmp, that is removed with all in it in the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The whole of a small file; Error(damaged) if it is larger than `limit`. nullopt if it is not there.
std::optional<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);

// Replaces a file whole: temporary name in the same directory, written, synced if `durable` (then the directory too), renamed.
// Readers see the old contents or the new. Leaves no temporary file behind on failure.
void replace_file(const std::string& path, std::string_view contents, bool durable);

// The same for a file that nobody else replaces meanwhile, since the caller has it locked: the temporary name is always
// "<path>.tmp", so that processes that are killed leave at most that one behind. Where the lock may be lost without a word (a
// network file system), `check` throws if it was: it is called once the temporary file is there. Whoever gets the lock after
// that and replaces the file takes the temporary one away first, so that ours does not come in its place later.
void replace_locked_file(const std::string& path, std::string_view contents, bool durable,
                         const std::function<void()>& check = {});

// The same, not durable, through a name that nobody else uses meanwhile, in whatever directory of that file system. What a killed
// process leaves there is the caller's to remove.
void replace_file_through(const std::string& temporary, const std::string& path, std::string_view contents);

// Puts an empty file of the same mode in the place of a file, unless `is_due` says no once the new one is ready. There is a file
// at every moment. False if it was not replaced, also because somebody else was about to do the same.
bool renew_empty_file(const std::string& path, const std::function<bool()>& is_due);

}  // namespace partlog::os

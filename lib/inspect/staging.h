// New files for a partition directory, put in place together: written and synced in its subdirectory "repair", then renamed over
// the old ones, of which "before-repair.N" keeps a link. They can be opened by whoever could open the old ones.
//
// The file "repair/plan" is what makes the renames one step: once it is there, they are finished, if need be by the next repair;
// without it the subdirectory is rubbish. Under the append lock, where there is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/file.h"

namespace partlog::inspect {

class Staging {
 public:
  explicit Staging(std::string partition_directory);

  // Deals with what an earlier repair left that did not get to its end. Durable.
  void recover() const;
  // Makes the subdirectory, empty.
  void begin() const;
  void discard() const;

  const std::string& directory() const { return staging_; }
  std::string path(const std::string& name) const { return staging_ + '/' + name; }
  void write(const std::string& name, std::string_view contents) const;

  // Puts the files in place, in this order, and returns the directory that keeps the old ones. They must be synced. First comes
  // the segment that writers append to, if it is among them: with it the others are no longer written to. What writers have open
  // nevertheless is `open`: their contents are replaced instead, as in overwrite().
  std::string commit(const std::vector<std::string>& names, const std::vector<std::string>& open = {}) const;
  // Puts one file in place at once, and keeps no old one. Durable once the partition directory is synced.
  void replace(const std::string& name) const;
  // Writes what is staged into the file that has the name, where it is one.
  void overwrite(const std::string& name) const;

 private:
  struct Step {
    std::string name;
    std::int64_t old_size;  // -1: there is none
  };
  std::string make_kept() const;
  void give_access(const std::string& name) const;
  std::string plan_path() const { return path("plan"); }
  std::string target(const std::string& name) const { return partition_ + '/' + name; }
  std::int64_t size_of(const std::string& path) const;
  std::optional<std::vector<Step>> read_plan() const;
  bool is_outdated(const std::vector<Step>& steps) const;
  void finish(const std::vector<Step>& steps) const;

  std::string partition_;
  std::string staging_;
};

}  // namespace partlog::inspect

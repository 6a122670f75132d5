// New files for a partition directory, put in place together: written and synced in its subdirectory "repair", then renamed over
// the old ones, of which "before-repair.N" keeps a link. They can be opened by whoever could open the old ones.
//
// The file "repair/plan" is what makes the renames one step: once it is there, they are finished, if need be by the next repair;
// without it the subdirectory is rubbish. It is there until it has been told what was done. Under the append lock, where there is
// one.
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

  struct Plan {
    std::string kept;    // the directory that keeps the old files
    std::string report;  // as given to commit()
  };

  // What an earlier repair got ready and did not get to the end of; nullopt: nothing that recover() would finish.
  std::optional<Plan> unfinished() const;
  // A repair has died in the midst of it: the append lock, which a repair holds throughout and writers for moments, is free at
  // times.
  bool is_abandoned() const;
  // Finishes that, which stays to be told of until discard(); anything else is discarded. Durable.
  std::optional<Plan> recover() const;
  // Makes the subdirectory, empty.
  void begin() const;
  void discard() const;

  const std::string& directory() const { return staging_; }
  std::string path(const std::string& name) const { return staging_ + '/' + name; }
  void write(const std::string& name, std::string_view contents) const;

  // Puts the files in place, in this order, and returns the directory that keeps the old ones. They must be synced. First comes
  // the segment that writers append to, if it is among them: with it the others are no longer written to. What writers have open
  // nevertheless is `open`: their contents are replaced instead, as in overwrite(). From then on until discard() a repair that
  // begins finds the report. Those that are `gone` are taken away behind the others.
  std::string commit(const std::vector<std::string>& names, const std::vector<std::string>& open,
                     const std::vector<std::string>& gone, const std::string& report) const;
  // Puts one file in place at once, and keeps no old one. Durable once the partition directory is synced.
  void replace(const std::string& name) const;
  // Writes what is staged into the file that has the name, where it is one.
  void overwrite(const std::string& name) const;

 private:
  struct Step {
    std::string name;
    std::int64_t old_size;  // -1: there is none
    bool is_open = false;
    bool is_gone = false;  // the file is taken away; what is staged is empty
  };
  struct Steps {
    std::string kept;
    std::vector<Step> files;
  };
  std::string make_kept() const;
  void give_access(const std::string& name) const;
  std::string plan_path() const { return path("plan"); }
  std::string report_path() const { return path("report"); }
  std::string target(const std::string& name) const { return partition_ + '/' + name; }
  std::int64_t size_of(const std::string& path) const;
  std::optional<Steps> read_plan() const;
  Step read_step(std::string_view line) const;
  bool is_outdated(const std::vector<Step>& steps) const;
  Plan plan_of(const Steps& steps) const;
  void finish(const Steps& steps) const;

  std::string partition_;
  std::string staging_;
};

}  // namespace partlog::inspect

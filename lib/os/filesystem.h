// What kind of file system a directory lies on, and whether its locks can be trusted.
#pragma once

#include <string>

namespace partlog::os {

struct Filesystem {
  bool network = false;  // statfs says NFS, SMB/CIFS, FUSE, Ceph, 9p, AFS …: shared between hosts, or to be treated so
  // Not empty: why locks on it do not reach other hosts (/proc/self/mountinfo: nolock, local_lock=posix|all, nobrl); such a file
  // system is refused for a store.
  std::string lock_fault;
};

// PARTLOG_FILESYSTEM=network|local in the environment overrides `network` (tests run the network rules on a local directory).
Filesystem filesystem_of(const std::string& path);
// That alone, also where the file system does not answer: only a network's does not.
bool is_on_network(const std::string& path);

}  // namespace partlog::os

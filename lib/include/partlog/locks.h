// Who holds which lock of a store, asked of the kernel without taking any: read permission must do.
//
// Safe from several threads. What is returned is as of now, and may be over already.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partlog/export.h"
#include "partlog/store.h"
#include "partlog/types.h"

namespace partlog {

struct LockInfo {
  enum class Kind {
    append,  // of a partition, while records are stored
    topic,   // while its configuration is changed, or it is deleted
    group,   // while members come and go, or positions are reset
    member,  // held for life by the member's process
    claim,   // of a partition, by the member that consumes it
    offset,  // of a position, while it is replaced
  };
  Kind kind = Kind::append;
  std::string path;
  std::string topic;             // empty for group and member
  std::optional<int> partition;  // of append, claim and offset
  std::string group;             // empty for append and topic
  std::string member;            // of member and claim; empty where it is not known
  bool held = false;
  std::string host;                // of the holder; empty where the kernel does not say
  int pid = 0;                     // likewise 0: another host
  Timestamp since = no_timestamp;  // known of members
  std::string fault;               // not empty: why it cannot be told whether the lock is held
};

// The locks that are held, or that cannot be asked; with `free_ones` all lock files there are. By topic, then by group.
PARTLOG_EXPORT std::vector<LockInfo> locks(const Store& store, bool free_ones = false);

}  // namespace partlog

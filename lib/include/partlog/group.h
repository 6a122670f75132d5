// Consumer groups: named positions in topics, kept as text files in the store, and who is reading from them now.
//
// A committed offset is the next offset to read, per group, topic and partition. It belongs to one incarnation of the topic (its
// topic id): with another id the group has no position there. Group names follow Kafka's rule for topic names.
//
// A Group object is a name and a path: safe to share between threads, and what it returns is as of now. Nothing here writes or
// takes a lock unless it says so. A damaged file is Error(damaged) naming it; other partitions and groups are not affected.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/store.h"
#include "partlog/types.h"

namespace partlog {

struct TopicPartition {
  std::string topic;
  int partition = 0;
  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
};

// What an offset file holds.
struct CommittedOffset {
  Offset offset;  // the next to read
  std::string topic_id;
  std::int32_t leader_epoch = no_epoch;  // of the record before it; no_epoch: not known
  std::size_t cuts = 0;                  // how many lines the partition's cuts had then
  Timestamp committed_at;
  std::string member;    // the member that may commit; empty: none ever took the partition
  std::string metadata;  // free text of the committer (Kafka's OffsetAndMetadata)
};

// A member of a group whose process lives.
struct MemberInfo {
  std::string id;
  std::string host;
  int pid = 0;
  Timestamp since = no_timestamp;
  bool commits = true;                   // by itself; false: a script commits for it (--commit none)
  bool responds = true;                  // false: it left lying what was assigned to it (it is stopped, say), so others got that
  std::vector<std::string> topics;       // subscribed, sorted
  std::vector<TopicPartition> assigned;  // sorted
};

struct GroupState {
  std::int64_t generation = 0;  // 0: nobody ever joined
  std::string assignor;         // empty as long as nobody joined
  std::vector<MemberInfo> members;
};

// A committed offset against the log as it stands.
struct GroupPosition {
  enum class State {
    in_log,       // between log start and end
    below_start,  // retention has passed it by
    past_end,     // an error: nothing will ever stand between the end and it but what nobody has read
    cut,          // the log was cut below it, by a power failure, say: `offset` is where it ended then
  };
  Offset offset;
  State state = State::in_log;
  Offset committed;  // as the file says; differs from `offset` only behind a cut (also one that retention has passed by since)
  Offset start, end;
};

// A topic of which it cannot be told what positions the group has in it.
struct FailedTopic {
  std::string topic;
  Error error;
};

class PARTLOG_EXPORT Group {
 public:
  static std::vector<std::string> names(const Store& store);  // sorted
  // Error(not_found) naming similar groups, Error(invalid_argument) for an illegal name, Error(io) where something else than a
  // directory stands in its place.
  static Group open(const Store& store, std::string_view name);
  // Makes the group's directory where it is absent.
  static Group open_or_create(const Store& store, std::string_view name);

  const std::string& name() const { return name_; }
  const std::string& directory() const { return directory_; }

  // Which partitions have an offset file, sorted. What is no topic or partition among the files is left out. Topics whose
  // directory is none (a file by that name, perhaps a stranger's) or cannot be listed go into `failed`; without it, the former
  // are left out, and the latter are an Error.
  std::vector<TopicPartition> partitions(std::vector<FailedTopic>* failed = nullptr) const;
  // What the offset file says; nullopt: there is none.
  std::optional<CommittedOffset> committed(const std::string& topic, int partition) const;
  // Where the group stands in a topic as it is now; nullopt: no position (none committed, or in an earlier topic of that name).
  std::optional<GroupPosition> position(const Store& store, const Topic& topic, int partition) const;

  // The members whose process lives, and what is assigned to them.
  GroupState state() const;
  // The live member that consumes the partition now (it holds the claim); nullopt: nobody. Its id is empty, and of all the rest
  // only host and pid known, while it has only just taken the partition.
  std::optional<MemberInfo> owner(const std::string& topic, int partition) const;

  // Moves a position forward, durable on return; the same position again is no change and no error. Error(refused) if the
  // position is beyond `next`; Error(offset_out_of_range) if `next` is beyond the end of the log or below its start; both name
  // the present position. Error(busy) while a live member that commits by itself owns the partition, naming host and pid, or
  // after the time-out; Error(not_found) if the topic is another one by now. The metadata has 4096 bytes at most.
  void commit(const Store& store, const Topic& topic, int partition, Offset next, std::string_view metadata = {},
              std::optional<std::chrono::milliseconds> lock_timeout = {}) const;

  // What commit() would do, without a lock and without a change: throws what it would throw, and returns the present position
  // (nullopt: none). The group need not exist.
  static std::optional<GroupPosition> check_commit(const Store& store, std::string_view group, const Topic& topic, int partition,
                                                   Offset next, std::string_view metadata = {});

 private:
  friend class GroupChange;
  friend class GroupMember;
  Group(std::string name, std::string directory, bool network)
      : name_(std::move(name)), directory_(std::move(directory)), network_(network) {}
  std::string name_;
  std::string directory_;
  bool network_;
};

// Changes to a group that no member may see half: holds group.lock while it lives, so that nobody joins meanwhile. One thread.
class PARTLOG_EXPORT GroupChange {
 public:
  // What the constructor would throw because of what stands in the lock's way, without a lock and without a change.
  static void check(const Group& group);
  // The same for reset() and remove_offset().
  static void check(const Group& group, const std::string& topic, int partition);
  // Waits for the lock; Error(busy) after the time-out.
  explicit GroupChange(const Group& group, std::optional<std::chrono::milliseconds> lock_timeout = {});
  ~GroupChange();
  GroupChange(GroupChange&&) noexcept;
  GroupChange& operator=(GroupChange&&) noexcept;

  // Error(busy) naming host and pid if a live member owns a partition of the topic, or has one assigned. Of a partition whose
  // claim cannot be looked at, reset() and remove_offset() say so.
  void require_no_owner(const std::string& topic) const;
  // Error(busy) if the group has a live member.
  void require_no_members() const;

  // Sets the position, wherever it is now; durable on return. Calls require_no_owner(). Error(not_found) if the topic is another
  // one by now.
  void reset(const Topic& topic, int partition, Offset offset);
  // Removes the position; durable on return. Calls require_no_owner(). False: there was none.
  bool remove_offset(const std::string& topic, int partition);
  // Removes the group with all its positions from view, then its files. Calls require_no_members().
  void remove_group();

 private:
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

// Kafka's rule, as for topics; throws Error(invalid_argument) saying what is wrong.
PARTLOG_EXPORT void require_valid_group_name(std::string_view name);

}  // namespace partlog

// What the commands about groups share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "address.h"
#include "command.h"
#include "exit_status.h"
#include "options.h"
#include "partlog/group.h"
#include "topic_commands.h"

namespace partlog::cmd {

void declare_group(OptionSet& options, std::optional<std::string>& target);
// UsageError where --group is missing, Error(invalid_argument) where it is no name of a group.
void require_group(const std::optional<std::string>& group);

// nullopt: there is none. Group::open() would list all groups to name similar ones.
std::optional<Group> find_group(const Store& store, const std::string& name);

// `orders:3`
std::string partition_name(std::string_view topic, int partition);
// `process 17 on host alpha (member m)`, in the words of the library.
std::string process_of(const MemberInfo& member);

// Topics by name, each looked up once.
class TopicCache {
 public:
  explicit TopicCache(const Store& store) : store_(store) {}
  // As Store::topic().
  const Topic& get(const std::string& name);
  // nullptr: there is none. Error(damaged).
  const Topic* find(const std::string& name);

 private:
  const Store& store_;
  std::map<std::string, std::optional<Topic>> topics_;
};

// As Group::partitions(), but that a file that merely stands among the topics' directories is no failure.
std::vector<TopicPartition> partitions_of(const Group& group, TopicCache& topics, std::vector<FailedTopic>& failed);

// What a dry run can tell of Error(busy) and of a store that may not be written to, without taking a lock.
void require_no_owner(const Group& group, const std::string& topic);
void require_no_members(const Group& group);
void require_writable(const Store& store, const std::optional<Group>& group);

}  // namespace partlog::cmd

#include "group/member_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/time_text.h"
#include "format/file_names.h"
#include "format/properties.h"
#include "partlog/error.h"

namespace partlog::group {

namespace {

constexpr std::string_view member_prefix = "member.";
constexpr std::string_view topic_prefix = "topic.";
constexpr std::int64_t most_generations = std::numeric_limits<std::int64_t>::max() / 2;  // one can always be added

// The words between single separators; none of an empty text.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto size = std::min(text.find(separator), text.size());
    words.push_back(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return words;
}

std::optional<int> small_number(std::string_view text) {
  const auto value = format::parse_integer(text);
  if (!value || *value < 0 || *value > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*value);
}

// What is assigned of a topic by any line so far.
class Assigned {
 public:
  explicit Assigned(int partitions) : taken_(static_cast<std::size_t>(partitions)) {}

  // "0-3,6", in rising order; false, before anything is made of it, if it is no such thing, names what the topic does not have,
  // or something twice.
  bool add(std::string_view topic, std::string_view numbers, std::vector<TopicPartition>& to) {
    int next = 0;
    for (const auto range : split(numbers, ',')) {
      const auto dash = range.find('-');
      const auto first = small_number(range.substr(0, dash));
      const auto last = dash == std::string_view::npos ? first : small_number(range.substr(dash + 1));
      if (!first || !last || *first < next || *last < *first) return false;
      if (static_cast<std::size_t>(*last) >= taken_.size()) return false;
      for (int p = *first; p <= *last; ++p) {
        if (taken_[static_cast<std::size_t>(p)]) return false;
        taken_[static_cast<std::size_t>(p)] = true;
        to.push_back({std::string(topic), p});
      }
      next = *last + 1;
    }
    return !numbers.empty();
  }

 private:
  std::vector<bool> taken_;
};

class Parser {
 public:
  Parser(const format::Properties& properties, const std::string& path) : properties_(properties), path_(path) {}

  MemberTable table() {
    table_.generation = format::integer_property(properties_, "generation", path_);
    if (table_.generation < 0 || table_.generation > most_generations) damaged("generation");
    if (const auto assignor = properties_.find("assignor"); assignor != properties_.end()) table_.assignor = assignor->second;
    for (const auto& [key, value] : properties_) {
      if (key.starts_with(topic_prefix)) add_topic(key.substr(topic_prefix.size()), value);
    }
    std::map<std::string, MemberInfo> members;
    for (const auto& [key, value] : properties_) {
      if (!key.starts_with(member_prefix)) continue;
      const auto dot = key.rfind('.');
      if (dot < member_prefix.size()) damaged(key);
      auto id = key.substr(member_prefix.size(), dot - member_prefix.size());
      if (!format::name_fault(id).empty()) damaged(key);
      auto& member = members[id];
      member.id = std::move(id);
      set(member, std::string_view(key).substr(dot + 1), key, value);
    }
    for (auto& [id, member] : members) table_.members.push_back(std::move(member));
    return std::move(table_);
  }

 private:
  [[noreturn]] void damaged(const std::string& key) const {
    throw Error(ErrorCode::damaged, path_ + ": \"" + key + "\" is not what it should be");
  }

  void add_topic(const std::string& topic, const std::string& value) {
    const auto words = split(value, ' ');
    const auto partitions = words.size() == 2 ? small_number(words[1]) : std::nullopt;
    if (!partitions || *partitions > format::max_partitions) damaged(std::string(topic_prefix) + topic);
    partitions_ += static_cast<std::size_t>(*partitions);
    if (partitions_ > most_partitions) damaged(std::string(topic_prefix) + topic);
    table_.topics[topic] = {std::string(words[0]), *partitions};
  }

  void set(MemberInfo& member, std::string_view attribute, const std::string& key, const std::string& value) {
    if (attribute == "host") {
      member.host = value;
    } else if (attribute == "pid") {
      const auto pid = small_number(value);
      if (!pid) damaged(key);
      member.pid = *pid;
    } else if (attribute == "since") {
      const auto time = parse_iso_time(value);
      if (!time) damaged(key);
      member.since = *time;
    } else if (attribute == "commits") {
      member.commits = truth(key, value);
    } else if (attribute == "responds") {
      member.responds = truth(key, value);
    } else if (attribute == "topics") {
      for (const auto topic : split(value, ' ')) member.topics.emplace_back(topic);
    } else if (attribute == "assigned") {
      for (const auto address : split(value, ' ')) add_assigned(member, address, key);
    }
  }

  bool truth(const std::string& key, const std::string& value) const {
    if (value != "true" && value != "false") damaged(key);
    return value == "true";
  }

  void add_assigned(MemberInfo& member, std::string_view address, const std::string& key) {
    const auto colon = address.find(':');
    if (colon == std::string_view::npos) damaged(key);
    const auto topic = table_.topics.find(std::string(address.substr(0, colon)));
    if (topic == table_.topics.end()) damaged(key);
    auto& assigned = assigned_.try_emplace(topic->first, topic->second.partitions).first->second;
    if (!member.assigned.empty() && topic->first <= member.assigned.back().topic) damaged(key);
    if (!assigned.add(topic->first, address.substr(colon + 1), member.assigned)) damaged(key);
  }

  const format::Properties& properties_;
  const std::string& path_;
  std::size_t partitions_ = 0;  // of all topics
  std::map<std::string, Assigned> assigned_;
  MemberTable table_;
};

std::string addresses(const std::vector<TopicPartition>& sorted) {
  std::string text;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end].topic == sorted[i].topic &&
           sorted[end].partition == sorted[end - 1].partition + 1) {
      ++end;
    }
    const bool same_topic = i > 0 && sorted[i - 1].topic == sorted[i].topic;
    text += same_topic ? "," : (i > 0 ? " " : "") + sorted[i].topic + ":";
    text += std::to_string(sorted[i].partition);
    if (end - i > 1) text += "-" + std::to_string(sorted[end - 1].partition);
    i = end;
  }
  return text;
}

std::string words(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace

const MemberInfo* MemberTable::find(std::string_view id) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const MemberInfo& m) { return m.id == id; });
  return found == members.end() ? nullptr : &*found;
}

MemberInfo* MemberTable::find(std::string_view id) { return const_cast<MemberInfo*>(std::as_const(*this).find(id)); }

MemberTable parse_member_table(std::string_view text, const std::string& path) {
  const auto properties = format::parse_properties(text, path);
  if (!text.ends_with('\n')) {
    throw Error(ErrorCode::damaged, path + (text.empty() ? ": the file is empty" : ": the last line has no end"));
  }
  return Parser(properties, path).table();
}

std::string format_member_table(const MemberTable& table) {
  format::Properties properties{{"generation", std::to_string(table.generation)}, {"assignor", table.assignor}};
  for (const auto& [topic, known] : table.topics) {
    properties[std::string(topic_prefix) + topic] = known.id + " " + std::to_string(known.partitions);
  }
  for (const auto& member : table.members) {
    const auto prefix = std::string(member_prefix) + member.id + ".";
    properties[prefix + "host"] = member.host;
    properties[prefix + "pid"] = std::to_string(member.pid);
    properties[prefix + "since"] = iso_time(member.since);
    properties[prefix + "commits"] = member.commits ? "true" : "false";
    properties[prefix + "responds"] = member.responds ? "true" : "false";
    properties[prefix + "topics"] = words(member.topics);
    properties[prefix + "assigned"] = addresses(member.assigned);
  }
  return format::format_properties(properties);
}

}  // namespace partlog::group

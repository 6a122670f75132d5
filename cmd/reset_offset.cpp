// `partlog reset-offset`
#include <algorithm>
#include <set>

#include "group_commands.h"
#include "messages.h"
#include "offsets_file.h"
#include "output.h"
#include "reset_plan.h"
#include "table.h"
#include "times.h"

namespace partlog::cmd {
namespace {

// The time that lies `text`, a duration in one of its two forms, before now.
Timestamp time_before_now(const std::string& text) {
  if (!text.starts_with('-') && !text.empty()) {
    try {
      return parse_time('-' + text, "--by-duration", now());
    } catch (const UsageError&) {  // says what a time is, not what a duration is
    }
  }
  throw UsageError("--by-duration needs a duration such as 1h30m or P1DT2H, not '" + text + "'");
}

class ResetOffset : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "topic", 0);
    declare_group(options, group_);
    options.flag("--all-topics", all_topics_, "all partitions in which the group has a position");
    options.flag("--to-earliest", to_earliest_, "to the start of the log");
    options.flag("--to-latest", to_latest_, "to the end of the log");
    options.flag("--to-current", to_current_, "to where the group stands");
    options.number("--to-offset", "N", to_offset_, "to offset N", lowest);
    options.number("--shift-by", "N", shift_by_, "N records forward from where the group stands, back if N is negative", lowest);
    options.text("--to-datetime", "TIME", to_datetime_, "to the first record at or after TIME");
    options.text("--by-duration", "TIME", by_duration_, "to the first record of the last TIME");
    options.text("--from-file", "FILE", file_, "to what FILE says (- is standard input): topic,partition,offset");
    options.text("--to-group", "GROUP", other_name_, "to where GROUP stands");
    options.flag("--local", zone_.local, "a time without zone is local time, not UTC");
    declare_dry_run(options, dry_run_);
    options.flag("--execute", execute_, "do it");
    options.flag("--export", export_, "print the offsets as --from-file reads them, and do nothing");
    style_.declare(options);
    for (std::size_t i = 0; i < std::size(targets); ++i) {
      for (std::size_t j = i + 1; j < std::size(targets); ++j) options.conflict(targets[i], targets[j]);
    }
    options.conflict("--dry-run", {"--execute", "--export"});
    options.conflict("--execute", "--export");
    options.conflict("--export", {"--json", "--tsv", "--no-header"});
    options.conflict("--from-file", "--all-topics");
    options.require("--local", {"--to-datetime"});
  }

  void validate(const OptionSet& options) override {
    require_group(group_);
    if (std::none_of(std::begin(targets), std::end(targets), [&](auto name) { return options.given(name); })) {
      throw UsageError(
          "a target is missing: one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
          "--to-datetime, --by-duration, --from-file, --to-group");
    }
    if (!dry_run_ && !execute_ && !export_) throw UsageError("say whether to do it: one of --dry-run, --execute, --export");
    if (file_ && !operands_.empty()) throw UsageError("--from-file names its own topics: no others may be given");
    if (all_topics_ && !operands_.empty()) throw UsageError("--all-topics cannot be combined with topics as operands");
    if (!file_ && !all_topics_ && operands_.empty()) throw UsageError("a topic is missing (or --all-topics)");
    for (const auto& operand : operands_) addresses_.push_back(parse_topic_address(operand));
    if (other_name_) require_valid_group_name(*other_name_);
    choose_target();
  }

  int run(const Globals& globals) override {
    std::vector<OffsetRow> wanted;
    if (file_) wanted = read_offsets_file(*file_, *group_);
    Store store = open_store(globals);
    if (other_name_) other_ = Group::open(store, *other_name_);
    std::optional<Group> group = find_group(store, *group_);
    if (all_topics_ && !group && !other_) group = Group::open(store, *group_);  // throws, naming similar ones
    TopicCache topics(store);
    if (all_topics_) add_positions(other_ ? *other_ : *group, topics);
    for (const auto& address : addresses_) add_rows(address, topics);
    require_no_duplicates();
    for (const auto& row : wanted) add_row(row, topics);
    if (execute_) {
      execute(store, group, globals);
    } else {
      if (dry_run_) foresee_refusal(store, group);
      plan(store, group);
      for (const auto& row : rows_) {
        if (dry_run_ && row.failure.empty() && row.plan.target) tell_damage(row);
      }
    }
    if (export_) {
      print_export();
    } else {
      print_table();
    }
    return outcome_.status();
  }

 private:
  static constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  static constexpr std::string_view targets[] = {"--to-earliest", "--to-latest",   "--to-current", "--to-offset", "--shift-by",
                                                 "--to-datetime", "--by-duration", "--from-file",  "--to-group"};

  struct Row {
    std::string topic_name;
    std::optional<int> partition;
    const Topic* topic = nullptr;
    std::optional<Offset> wanted;  // of a file
    std::string where;
    PlannedReset plan;
    std::string failure;  // not empty: nothing more is done with it
  };

  void choose_target() {
    using Kind = ResetTarget::Kind;
    if (to_earliest_) target_.kind = Kind::earliest;
    if (to_latest_) target_.kind = Kind::latest;
    if (to_current_) target_.kind = Kind::current;
    if (to_offset_) target_ = {Kind::offset, *to_offset_, {}};
    if (shift_by_) target_ = {Kind::shift, *shift_by_, {}};
    if (to_datetime_) target_ = {Kind::time, 0, parse_time(*to_datetime_, "--to-datetime", now(), zone_)};
    if (by_duration_) target_ = {Kind::time, 0, time_before_now(*by_duration_)};
  }

  // All partitions in which a group has a position. Those in topics that were deleted count for nothing.
  void add_positions(const Group& group, TopicCache& topics) {
    std::vector<FailedTopic> failed;
    const auto partitions = partitions_of(group, topics, failed);
    for (const auto& [topic, error] : failed) fail(rows_.emplace_back(Row{topic, {}, nullptr, {}, "", {}, ""}), error);
    for (const auto& [name, partition] : partitions) {
      Row row{name, partition, nullptr, {}, "", {}, ""};
      try {
        row.topic = topics.find(name);
        auto committed = group.committed(name, partition);
        if (!committed) continue;
        if (row.topic == nullptr || row.topic->id != committed->topic_id || partition >= row.topic->partitions) {
          notice(partition_name(name, partition) + ": the position is in a topic that was deleted, and left out");
          continue;
        }
      } catch (const Error& error) {
        fail(row, error);
      }
      rows_.push_back(std::move(row));
    }
  }

  void fail(Row& row, const Error& error) {
    row.failure = error.what();
    outcome_.fail_once(error, row.where);
  }

  static void tell_damage(const Row& row) {
    if (!row.plan.damage.empty()) notice(row.plan.damage + "; it is replaced");
  }

  // As in a file: which of two targets would count is anybody's guess, and if it is the same one, a slip.
  void require_no_duplicates() const {
    std::set<std::pair<std::string, int>> seen;
    for (const auto& row : rows_) {
      if (row.partition && !seen.emplace(row.topic_name, *row.partition).second) {
        throw UsageError(partition_name(row.topic_name, *row.partition) + " is named twice");
      }
    }
  }

  void add_rows(const Address& address, TopicCache& topics) {
    auto failed = [&](std::optional<int> partition, const Error& error) {
      fail(rows_.emplace_back(Row{address.topic, partition, nullptr, {}, "", {}, ""}), error);
    };
    try {
      const Topic& topic = topics.get(address.topic);
      std::vector<PartitionRange> missing;
      for (int partition : expand_partitions(address.partitions, topic, missing)) {
        rows_.push_back({topic.name, partition, &topic, {}, "", {}, ""});
      }
      for (auto range : missing) {
        failed(range.first == range.last ? std::optional(range.first) : std::nullopt, no_such_partition(topic, range));
      }
    } catch (const Error& error) {
      failed(std::nullopt, error);
    }
  }

  void add_row(const OffsetRow& wanted, TopicCache& topics) {
    Row& row = rows_.emplace_back(Row{wanted.topic, wanted.partition, nullptr, wanted.offset, wanted.where, {}, ""});
    try {
      const Topic& topic = topics.get(wanted.topic);
      if (wanted.partition >= topic.partitions) throw no_such_partition(topic, {wanted.partition, wanted.partition});
      row.topic = &topic;
    } catch (const Error& error) {
      fail(row, error);
    }
  }

  // Calls `check` once for each topic; where it throws, all rows of the topic fail.
  template <class Check>
  void check_topics(Check check) {
    std::set<std::string> done;
    for (const auto& first : rows_) {
      if (!first.failure.empty() || !done.insert(first.topic_name).second) continue;
      try {
        check(first.topic_name);
      } catch (const Error& error) {
        for (auto& row : rows_) {
          if (row.topic_name == first.topic_name && row.failure.empty()) row.failure = error.what();
        }
        outcome_.fail(error);
      }
    }
  }

  bool nothing_to_do() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return !row.failure.empty() || !row.plan.target; });
  }

  // The group exists from now on, unless there is nothing to be done; nobody joins it meanwhile.
  void execute(const Store& store, std::optional<Group>& group, const Globals& globals) {
    if (!group) {
      plan(store, group);
      if (nothing_to_do()) return;
      group = Group::open_or_create(store, *group_);
    }
    if (std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return !row.failure.empty(); })) return;
    GroupChange change(*group, globals.lock_timeout);
    check_topics([&](const std::string& topic) { change.require_no_owner(topic); });
    plan(store, group);
    for (auto& row : rows_) {
      if (!row.failure.empty() || !row.plan.target) continue;
      try {
        tell_damage(row);
        change.reset(*row.topic, *row.partition, *row.plan.target);
      } catch (const Error& error) {
        fail(row, error);
      }
    }
  }

  // What a real run would say: nothing of it keeps the plan from being shown.
  void foresee_refusal(const Store& store, const std::optional<Group>& group) {
    auto foresee = [&](auto check) {
      try {
        check();
      } catch (const Error& error) {
        outcome_.fail_once(error, "would be refused");
      }
    };
    foresee([&] { require_writable(store, group); });
    if (!group) return;
    foresee([&] { GroupChange::check(*group); });
    std::set<std::string> names;
    for (const auto& row : rows_) {
      if (!row.failure.empty()) continue;
      foresee([&] {
        if (names.insert(row.topic_name).second) require_no_owner(*group, row.topic_name);
      });
      foresee([&] { GroupChange::check(*group, row.topic_name, *row.partition); });
    }
  }

  void plan(const Store& store, const std::optional<Group>& group) {
    for (auto& row : rows_) {
      if (!row.failure.empty()) continue;
      try {
        row.plan = plan_row(store, group, row);
      } catch (const Error& error) {
        fail(row, error);
      }
    }
  }

  PlannedReset plan_row(const Store& store, const std::optional<Group>& group, const Row& row) const {
    ResetTarget target = target_;
    bool absent = false;
    if (row.wanted) target = {ResetTarget::Kind::offset, row.wanted->value, {}};
    if (other_) {
      auto position = other_->position(store, *row.topic, *row.partition);
      target = {ResetTarget::Kind::offset, position ? position->offset.value : 0, {}};
      absent = !position;
    }
    PlannedReset plan = plan_reset(store, group, *row.topic, *row.partition, target);
    if (absent) plan = {plan.old, {}, "group " + *other_name_ + " has no position there: left as it is", {}};
    return plan;
  }

  void print_table() const {
    Table table({"group", "topic", "partition", "old", "new", "time", "note"});
    Cell time = target_.kind == ResetTarget::Kind::time ? Cell(format_time(target_.time)) : Cell();
    for (const auto& row : rows_) {
      Cell partition = row.partition ? Cell(std::int64_t{*row.partition}) : Cell();
      if (!row.failure.empty()) {
        table.add_failed({*group_, row.topic_name, partition}, row.failure);
        continue;
      }
      const auto& [old, target, note, damage] = row.plan;
      table.add({*group_, row.topic_name, partition, old ? Cell(old->value) : Cell(), target ? Cell(target->value) : Cell(), time,
                 note.empty() ? Cell() : Cell(note)});
    }
    table.print(style_);
  }

  void print_export() const {
    std::string text;
    for (const auto& row : rows_) {
      if (row.failure.empty() && row.plan.target) append_offset_row(text, row.topic_name, *row.partition, *row.plan.target);
    }
    Output output;
    output.append(text);
    output.finish();
  }

  std::vector<std::string> operands_;
  std::vector<Address> addresses_;
  std::optional<std::string> group_;
  bool all_topics_ = false;
  bool to_earliest_ = false;
  bool to_latest_ = false;
  bool to_current_ = false;
  std::optional<std::int64_t> to_offset_;
  std::optional<std::int64_t> shift_by_;
  std::optional<std::string> to_datetime_;
  std::optional<std::string> by_duration_;
  std::optional<std::string> file_;
  std::optional<std::string> other_name_;
  std::optional<Group> other_;
  TimeZone zone_;
  ResetTarget target_;
  bool dry_run_ = false;
  bool execute_ = false;
  bool export_ = false;
  Table::Style style_;
  std::vector<Row> rows_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry reset_offset_command = {"reset-offset", "[TOPIC[:PARTITIONS]]...",
                                           "move a group's positions to offsets, times, or where another group stands",
                                           make_command<ResetOffset>};

}  // namespace partlog::cmd

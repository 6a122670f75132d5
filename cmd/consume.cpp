// `partlog consume`
#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "address.h"
#include "consumption.h"
#include "exec_delivery.h"
#include "group_consumption.h"
#include "messages.h"
#include "offsets_file.h"
#include "operand.h"
#include "partlog/segment_file.h"
#include "partlog/side_file.h"
#include "signals.h"
#include "text.h"
#include "times.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

// What all partitions that are read at the same time may hold together, but for the batch in hand.
constexpr std::size_t memory_of_all = 32 << 20;
constexpr std::size_t least_window = 16 << 10;
// Beyond so many partitions the usual limit of open files may not do.
constexpr std::size_t many_partitions = 100;
// Lines about what is missing are remembered, up to so many, because some of the log is read twice.
constexpr std::size_t most_remembered = 10'000;

void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A directory with segments, or a file of batches.
void require_batches(const std::string& path) {
  if (is_directory(path)) {
    if (segment_paths(path).empty()) throw Error(ErrorCode::not_found, "no segments in " + path);
    return;
  }
  auto kind = file_kind(path);
  if (kind == FileKind::unknown && begins_with_batch(path)) kind = FileKind::batches;
  if (kind != FileKind::batches) throw Error(ErrorCode::refused, path + " holds no batches of records; see partlog dump");
}

class Consume : public Command {
 public:
  void declare(OptionSet& options) override;
  void validate(const OptionSet& options) override;
  int run(const Globals& globals) override;

 private:
  void declare_range(OptionSet& options);
  void declare_form(OptionSet& options);
  void declare_group(OptionSet& options);
  void declare_exec(OptionSet& options);
  void declare_conflicts(OptionSet& options);
  void declare_damage(OptionSet& options);
  void validate_range();
  void validate_damage();
  void validate_form();
  void validate_group();
  void parse_addresses();
  void parse_start(const std::string& text);

  struct Partition {
    std::shared_ptr<const Topic> topic;
    int number;
  };
  std::vector<Partition> find_partitions(const Store& store);
  std::vector<PartitionCursor> open_files();
  std::vector<PartitionCursor> open(const Store& store);
  std::unique_ptr<Delivery> make_delivery(const Store* store);
  void consume(const Store* store, Delivery& delivery);
  bool is_new(const std::string& line);
  void left_out(const LostRange& range);
  void consume_as_member(const Store& store, const Globals& globals, Delivery& delivery);
  void write_positions() const;
  void prepare_for(std::size_t partitions);

  std::vector<std::string> operands_, partitions_, offsets_;
  std::optional<std::string> since_, until_, merge_, reset_, delimiter_;
  std::optional<std::string> group_, commit_, assignor_, positions_file_, exec_, dead_letter_;
  std::optional<std::chrono::milliseconds> commit_interval_;
  std::optional<std::int64_t> tail_, count_, exec_batch_, retries_;
  std::optional<std::string> isolation_;
  bool files_ = false;
  bool skip_corrupt_ = false;
  bool to_end_ = false;
  bool null_delimiter_ = false;
  bool null_as_text_ = false;
  bool fail_if_empty_ = false;
  TimeZone zone_;
  Filter::Conditions conditions_;
  OutputFormat format_;
  ConsumptionOptions reading_;
  Delivery::Options delivering_;
  GroupOptions member_;
  ExecDelivery::ExecOptions executing_;
  PartitionCursor::Options range_;
  std::vector<Address> addresses_;
  std::optional<Filter> filter_;
  Output output_;
  std::map<TopicPartition, Offset> positions_;
  std::set<std::string> told_;
  Outcome outcome_;
};

void Consume::declare(OptionSet& options) {
  options.operands(operands_, "topic", 0);
  declare_damage(options);
  declare_range(options);
  declare_form(options);
  declare_group(options);
  declare_exec(options);
  declare_conflicts(options);
}

void Consume::declare_range(OptionSet& options) {
  options.list("-p,--partition", "N", partitions_, "read partition N (or 0,2 or 0-3) of the topics; may be repeated");
  options.list("-o,--offset", "WHERE", offsets_,
               "start at beginning (default), end, offset N, N before the end (-N), a time (s@TIME) or, with -g, stored; e@TIME "
               "stops there");
  options.text("--since", "TIME", since_, "start each partition at its first record with a timestamp at or after TIME");
  options.text("--until", "TIME", until_, "stop each partition before the first later record with a timestamp at or after TIME");
  options.flag("--local", zone_.local, "a time without zone is local time, not UTC");
  options.number("--tail", "N", tail_, "only the newest N records of all partitions together, by timestamp");
  options.number("-c,--count", "N", count_, "stop after N records");
  options.flag("-e,--exit", to_end_, "stop at the end as it stood at the start (the default)");
  options.flag("-F,--follow", reading_.follow, "wait for more records at the end");
  options.duration("--idle-timeout", reading_.idle_timeout, "with -F: stop when no record came for TIME");
  options.text("--merge", "time", merge_, "print by timestamp, then partition, then offset, not one partition after another");
  options.text(
      "--reset", "WHERE", reset_,
      "earliest (default), latest or fail (status 4): when the log start has overtaken the reader, or its group has no position");
  options.list("-k,--key", "KEY", conditions_.keys, "only records with this key; may be repeated for any of them");
  options.list("-H,--header", "NAME[=VALUE]", conditions_.headers,
               "only records with this header; may be repeated for all of them");
  options.list("--grep", "REGEX", conditions_.patterns,
               "only records whose value matches, as grep -E does; may be repeated for any of them");
  options.flag("--not", conditions_.invert_patterns, "only records whose value does not match --grep");
  options.flag("--fail-if-empty", fail_if_empty_, "status 3 if no record was printed");
}

void Consume::declare_damage(OptionSet& options) {
  options.flag("--files", files_,
               "the operands are segment files or partition directories, ours or a broker's; there is no store");
  options.text("--isolation", "LEVEL", isolation_,
               "committed (default): no records of transactions that were aborted or are still open; uncommitted: all");
  options.flag("--skip-corrupt", skip_corrupt_, "go on past damage, say what was left out, and end with status 5");
}

void Consume::declare_form(OptionSet& options) {
  options.escaped("-K,--key-delimiter", "DELIM", format_.key_delimiter, "print the key and DELIM before the value");
  options.escaped("-D,--delimiter", "DELIM", delimiter_, "print DELIM behind each record, not a newline");
  options.flag("-0,--null-delimiter", null_delimiter_, "print a NUL byte behind each record");
  options.flag("-Z,--null", null_as_text_, "print null as NULL, not as nothing");
  options.escaped("--null-marker", "TEXT", format_.null_marker, "print null as TEXT");
  options.escaped(
      "-f,--format", "FORMAT", format_.format,
      "print by tokens: %s value, %k key, %S and %K their lengths, %R the value's as 4 bytes, %t topic, %p partition, %o offset, "
      "%T timestamp, %h headers, %%; {hex}, {base64}, {json} or {iso} behind a token changes its form");
  options.flag("-J,--json-lines", format_.json, "print one JSON object a line");
  options.flag("-u,--unbuffered", delivering_.unbuffered, "write each record at once");
}

void Consume::declare_group(OptionSet& options) {
  options.text("-g,--group", "GROUP", group_,
               "read as a member of GROUP: share the partitions with the others, go on where it stands");
  options.text("--commit", "WHEN", commit_,
               "commit after (default) records were taken from us, before they are handed on, or none: a script does it");
  options.duration("--commit-interval", commit_interval_, "commit at most every TIME (1s; with --exec after each batch)");
  options.text("--assignor", "NAME", assignor_, "share by sticky (default), range or roundrobin");
  options.text("--positions", "FILE", positions_file_,
               "at the end write where each partition stands to FILE, for commit --from-file");
}

void Consume::declare_exec(OptionSet& options) {
  options.text(
      "--exec", "COMMAND", exec_,
      "hand the records in batches of one partition to `sh -c COMMAND`, on its standard input, instead of printing them");
  options.number("--exec-batch", "N", exec_batch_, "at most N records a batch (1000)", 1);
  options.number("--retries", "N", retries_, "run a command that fails N times again (3), after 1 s, 2 s, 4 s ...", 0, 30);
  options.text("--dead-letter", "TOPIC", dead_letter_,
               "store the records of a batch in TOPIC when the command failed for good, and go on");
}

void Consume::declare_conflicts(OptionSet& options) {
  options.refuse("-n,--dry-run", "consume has no --dry-run; -c N prints the first N records, --tail N the last");
  options.conflict("--json-lines", {"--key-delimiter", "--delimiter", "--null-delimiter", "--format", "--null", "--null-marker"});
  options.conflict("--delimiter", "--null-delimiter");
  options.conflict("--null", "--null-marker");
  options.conflict("--follow", {"--exit", "--merge"});
  options.conflict("--offset", {"--since", "--tail"});
  options.conflict("--group", {"--partition", "--since", "--until", "--tail", "--merge", "--local"});
  options.conflict("--exec", {"--tail", "--merge"});
  options.conflict("--positions", {"--tail", "--merge"});
  options.conflict("--files", {"--partition", "--group", "--positions", "--dead-letter"});
  options.require("--commit", {"--group"});
  options.require("--commit-interval", {"--group"});
  options.require("--assignor", {"--group"});
  options.require("--exec-batch", {"--exec"});
  options.require("--retries", {"--exec"});
  options.require("--dead-letter", {"--exec"});
  options.require("--idle-timeout", {"--follow"});
  options.require("--not", {"--grep"});
  options.require("--local", {"--since", "--until", "--offset"});
}

void Consume::validate(const OptionSet&) {
  if (operands_.empty()) throw UsageError(files_ ? "a segment file or partition directory is missing" : "a topic is missing");
  if (!files_) parse_addresses();
  validate_damage();
  validate_range();
  validate_form();
  validate_group();
}

void Consume::parse_addresses() {
  std::vector<PartitionRange> partitions;
  for (const auto& text : partitions_) {
    auto more = parse_partitions(text, "--partition");
    partitions.insert(partitions.end(), more.begin(), more.end());
  }
  for (const auto& operand : operands_) {
    Address& address = addresses_.emplace_back(parse_address(operand));
    if (address.offset)
      throw UsageError("'" + operand + "': consume takes the offset as -o " + std::to_string(address.offset->value));
    if (partitions.empty()) continue;
    if (!address.partitions.empty()) throw UsageError("--partition cannot be combined with '" + operand + "'");
    address.partitions = partitions;
  }
}

void Consume::validate_range() {
  auto is_end = [](const std::string& text) { return text.starts_with("e@"); };
  auto ends = std::count_if(offsets_.begin(), offsets_.end(), is_end);
  if (ends > 1) throw UsageError("--offset e@TIME is given twice");
  if (offsets_.size() - static_cast<std::size_t>(ends) > 1)
    throw UsageError("--offset gives two starts; of the two, only e@TIME is an end");
  for (const auto& offset : offsets_) parse_start(offset);
  if (since_) range_.start = {StartPoint::Kind::time, parse_time(*since_, "--since", now(), zone_).value};
  if (until_) {
    if (range_.until) throw UsageError("--until cannot be combined with --offset e@TIME");
    range_.until = parse_time(*until_, "--until", now(), zone_);
  }
  if (merge_ && merge_ != "time") throw UsageError("--merge is time, not '" + *merge_ + "'");
  reading_.merge = merge_.has_value();
  if (reset_ == "latest") {
    range_.reset = Reset::latest;
  } else if (reset_ == "fail") {
    range_.reset = Reset::fail;
  } else if (reset_ && reset_ != "earliest") {
    throw UsageError("--reset is earliest, latest or fail, not '" + *reset_ + "'");
  }
  range_.follow = reading_.follow;
  if (tail_) reading_.tail = static_cast<std::uint64_t>(*tail_);
  if (count_) delivering_.count = static_cast<std::uint64_t>(*count_);
}

void Consume::validate_group() {
  if (exec_ && exec_->empty()) throw UsageError("--exec needs a command; an empty one would take every record and do nothing");
  if (exec_) executing_.command = *exec_;
  if (positions_file_ == "-") throw UsageError("--positions needs a file: standard output is for the records");
  if (exec_batch_) executing_.batch = static_cast<std::uint64_t>(*exec_batch_);
  if (retries_) executing_.retries = static_cast<int>(*retries_);
  if (dead_letter_) {
    require_valid_topic_name(*dead_letter_);
    for (const auto& address : addresses_) {
      if (address.topic == *dead_letter_)
        throw UsageError("--dead-letter " + *dead_letter_ + " is one of the topics that are read");
    }
  }
  if (!group_) return;
  require_valid_group_name(*group_);
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    if (!addresses_[i].partitions.empty())
      throw UsageError("'" + operands_[i] + "': the members of a group share whole topics; name the topic alone");
  }
  for (const auto& offset : offsets_) {
    if (offset != "stored")
      throw UsageError("--offset " + offset + " cannot be combined with --group: reset-offset moves the position of a group");
  }
  if (commit_ == "before") {
    member_.commit = CommitPolicy::before;
  } else if (commit_ == "none") {
    member_.commit = CommitPolicy::none;
  } else if (commit_ && commit_ != "after") {
    throw UsageError("--commit is after, before or none, not '" + *commit_ + "'");
  }
  if (assignor_ == "range") {
    member_.member.assignor = Assignor::range;
  } else if (assignor_ == "roundrobin") {
    member_.member.assignor = Assignor::roundrobin;
  } else if (assignor_ && assignor_ != "sticky") {
    throw UsageError("--assignor is sticky, range or roundrobin, not '" + *assignor_ + "'");
  }
  if (exec_) member_.commit_interval = std::chrono::milliseconds(0);
  if (commit_interval_) member_.commit_interval = *commit_interval_;
}

void Consume::parse_start(const std::string& text) {
  auto number = parse_decimal(text);
  if (text.starts_with("e@")) {
    range_.until = parse_time_or_ms(text.substr(2), "--offset", now(), zone_);
  } else if (text.starts_with("s@")) {
    range_.start = {StartPoint::Kind::time, parse_time_or_ms(text.substr(2), "--offset", now(), zone_).value};
  } else if (text == "beginning" || text == "earliest") {
    range_.start = {StartPoint::Kind::beginning, 0};
  } else if (text == "end" || text == "latest") {
    range_.start = {StartPoint::Kind::end, 0};
  } else if (text == "stored") {
    if (!group_) throw UsageError("--offset stored is the position of a group, and no group is named");
  } else if (number && text.starts_with('-')) {
    range_.start = {StartPoint::Kind::back_from_end,
                    *number == std::numeric_limits<std::int64_t>::min() ? -(*number + 1) : -*number};
  } else if (number) {
    range_.start = {StartPoint::Kind::offset, *number};
  } else {
    throw UsageError("--offset is beginning, end, stored, N, -N, s@TIME or e@TIME, not '" + text + "'");
  }
}

void Consume::validate_damage() {
  range_.reader.isolation = isolation_ == "uncommitted" ? Isolation::uncommitted : Isolation::committed;
  if (isolation_ && isolation_ != "uncommitted" && isolation_ != "committed")
    throw UsageError("--isolation is committed or uncommitted, not '" + *isolation_ + "'");
  range_.reader.notice = [this](const std::string& line) {
    if (is_new(line)) notice(line);
  };
  if (skip_corrupt_) range_.reader.pass_over = [this](const LostRange& range) { left_out(range); };
}

bool Consume::is_new(const std::string& line) { return told_.size() >= most_remembered || told_.insert(line).second; }

void Consume::left_out(const LostRange& range) {
  std::string text = range.path + " position " + std::to_string(range.position.value);
  if (range.end > range.position) text += " to " + std::to_string(range.end.value);
  text += range.first < range.next ? ", " + offsets_text(range.first, range.next - 1) : ", no offsets";
  text += " left out: " + range.reason;
  if (!is_new(text)) return;
  complain(text);
  outcome_.fail(status_damaged);
}

void Consume::validate_form() {
  if (delimiter_) format_.delimiter = *delimiter_;
  if (null_delimiter_) format_.delimiter = std::string(1, '\0');
  if (null_as_text_) format_.null_marker = "NULL";
  filter_.emplace(conditions_);
  RecordOutput(output_, format_);  // refuses what is no format
}

int Consume::run(const Globals& globals) {
  catch_stop_signals();
  const auto store = files_ ? std::nullopt : std::optional(open_store(globals));
  const auto delivery = make_delivery(store ? &*store : nullptr);
  if (group_ || positions_file_) survive_broken_pipes();
  if (positions_file_) require_writable_file(*positions_file_);
  try {
    group_ ? consume_as_member(*store, globals, *delivery) : consume(store ? &*store : nullptr, *delivery);
    output_.finish();
  } catch (const Error& error) {
    write_positions();
    if (error.code() == ErrorCode::interrupted && stop_requested()) return signal_status();
    throw;
  } catch (const BrokenPipe&) {
    write_positions();
    throw;
  }
  write_positions();
  if (stop_requested()) return signal_status();
  if (fail_if_empty_ && delivery->delivered() == 0) outcome_.fail(status_empty);
  return outcome_.status();
}

std::unique_ptr<Delivery> Consume::make_delivery(const Store* store) {
  if (!exec_) return std::make_unique<PrintDelivery>(*filter_, outcome_, delivering_, format_, output_);
  if (dead_letter_) executing_.dead_letter = store->topic(*dead_letter_);
  return std::make_unique<ExecDelivery>(store, *filter_, outcome_, delivering_, format_, executing_);
}

void Consume::consume(const Store* store, Delivery& delivery) {
  auto cursors = store ? open(*store) : open_files();
  reading_.reader = range_.reader;
  reading_.track = positions_file_.has_value();
  Consumption consumption(*filter_, delivery, dynamic_cast<PrintDelivery*>(&delivery), outcome_, reading_);
  try {
    consumption.run(store, cursors);
  } catch (...) {
    positions_ = consumption.positions();
    throw;
  }
  positions_ = consumption.positions();
}

void Consume::consume_as_member(const Store& store, const Globals& globals, Delivery& delivery) {
  std::vector<std::string> topics;
  std::size_t partitions = 0;
  for (const auto& address : addresses_) {
    if (std::find(topics.begin(), topics.end(), address.topic) != topics.end()) continue;
    topics.push_back(address.topic);
    partitions += static_cast<std::size_t>(store.topic(address.topic).partitions);
  }
  prepare_for(partitions);
  member_.follow = reading_.follow;
  member_.idle_timeout = reading_.idle_timeout;
  member_.range = range_;
  member_.member.lock_timeout = globals.lock_timeout;
  const auto group = Group::open_or_create(store, *group_);
  GroupConsumption consumption(store, group, delivery, outcome_, member_);
  try {
    consumption.run(topics);
  } catch (...) {
    positions_ = consumption.positions();
    throw;
  }
  positions_ = consumption.positions();
}

void Consume::write_positions() const {
  if (!positions_file_) return;
  std::string text;
  for (const auto& [partition, next] : positions_) append_offset_row(text, partition.topic, partition.partition, next);
  write_offsets_file(*positions_file_, text);
}

// All that the operands name, each once, in their order.
std::vector<Consume::Partition> Consume::find_partitions(const Store& store) {
  std::vector<Partition> found;
  std::set<std::pair<std::string, int>> seen;
  for (const auto& address : addresses_) {
    try {
      auto topic = std::make_shared<const Topic>(store.topic(address.topic));
      for (int number : expand_partitions(address.partitions, *topic)) {
        if (seen.emplace(topic->name, number).second) found.push_back({topic, number});
      }
    } catch (const Error& error) {
      outcome_.fail(error);
    }
  }
  return found;
}

// So many may be read at the same time.
void Consume::prepare_for(std::size_t partitions) {
  if (partitions == 0) return;
  if (partitions > 1) reading_.share = member_.share = memory_of_all / partitions;
  range_.reader.window_bytes = std::clamp(memory_of_all / 2 / partitions, least_window, range_.reader.window_bytes);
  if (partitions > many_partitions) allow_many_files();
}

std::vector<PartitionCursor> Consume::open_files() {
  prepare_for(operands_.size());
  std::vector<PartitionCursor> cursors;
  std::set<std::string> seen;
  for (const auto& operand : operands_) {
    const auto path = path_operand(operand);
    if (!seen.insert(path).second) continue;
    try {
      require_batches(path);
      cursors.emplace_back(path, range_);
    } catch (const Error& error) {
      outcome_.fail(error);
    }
  }
  return cursors;
}

std::vector<PartitionCursor> Consume::open(const Store& store) {
  auto partitions = find_partitions(store);
  bool one_at_a_time = !reading_.follow && !reading_.merge && !reading_.tail && partitions.size() > 1;
  if (!one_at_a_time) prepare_for(partitions.size());
  std::vector<PartitionCursor> cursors;
  cursors.reserve(partitions.size());
  for (const auto& partition : partitions) {
    try {
      cursors.emplace_back(store, partition.topic, partition.number, range_);
      if (one_at_a_time) cursors.back().release();
    } catch (const Error& error) {
      outcome_.fail(error);
    }
  }
  return cursors;
}

}  // namespace

const CommandEntry consume_command = {"consume", "TOPIC[:PARTITIONS]...|--files PATH...", "print the records of topics",
                                      make_command<Consume>};

}  // namespace partlog::cmd

// `partlog verify`
#include <algorithm>
#include <filesystem>

#include "consent.h"
#include "exit_status.h"
#include "messages.h"
#include "operand.h"
#include "partlog/group.h"
#include "partlog/partition_check.h"
#include "partlog/partition_repair.h"
#include "partlog/side_file.h"
#include "signals.h"
#include "table.h"
#include "text.h"
#include "topic_commands.h"
#include "verify_output.h"

namespace partlog::cmd {
namespace {

bool is_partition(const std::string& directory) { return !segment_paths(directory).empty(); }

// The names in a directory, sorted.
std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) paths.push_back(entry.path());
  if (error) throw Error(ErrorCode::io, "list " + directory + ": " + error.message(), error.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_unreadable(const Error& error) { return error.code() == ErrorCode::damaged || error.code() == ErrorCode::io; }

class Verify : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "topic, file or directory", 0);
    options.flag("--repair", repair_, "mend what is damaged; the files as they were are kept beside, and what is lost is listed");
    options.flag("--reindex", reindex_, "make the indexes anew from the segments");
    options.flag("--yes", yes_, "do not ask; with --repair");
    declare_dry_run(options, dry_run_);
    style_.declare_endless(options);
    options.require("--yes", {"--repair"});
    options.require("--dry-run", {"--repair", "--reindex"});
    options.conflict("--repair", "--reindex");
  }

  int run(const Globals& globals) override {
    catch_stop_signals();
    check_.stop = &stop_requested();
    if (repair_ && !yes_ && !dry_run_) require_consent(question(), "repairing");
    mend_.dry_run = dry_run_;
    mend_.lock_timeout = globals.lock_timeout;
    mend_.check = check_;
    Output output;
    VerifyOutput shown(output, style_);
    shown_ = &shown;
    std::optional<Store> store;
    if (operands_.empty()) {
      store = open_store(globals);
      each([&] { whole_store(*store); });
    }
    for (const auto& operand : resolved(globals, store)) {
      each([&] { look_at(store, operand); });
    }
    shown.finish();
    output.finish();
    return stop_requested() ? signal_status() : outcome_.status();
  }

 private:
  // A topic whose properties cannot be read is one, too.
  static Operand resolved(const std::string& text, const Globals& globals, std::optional<Store>& store) {
    try {
      return resolve_operand(text, globals, store);
    } catch (const Error& error) {
      if (!store || !is_unreadable(error)) throw;
      return {{}, parse_address(text), {}};
    }
  }

  std::vector<Operand> resolved(const Globals& globals, std::optional<Store>& store) {
    std::vector<Operand> operands;
    for (const auto& text : operands_) {
      each([&] {
        operands.push_back(resolved(text, globals, store));
        if (operands.back().address.offset) throw UsageError(text + ": verify takes whole partitions, no offset");
      });
    }
    return operands;
  }

  // What fails is told, and does not keep the others from being looked at.
  template <class Work>
  void each(Work work) {
    if (stop_requested() || (shown_ != nullptr && shown_->has_failed())) return;
    try {
      work();
    } catch (const Error& error) {
      outcome_.fail(error);
    }
  }

  TakeFinding taker() {
    return [this](const CheckFinding& finding) {
      shown_->finding(finding);
      if (finding.kind == CheckFinding::Kind::damage) outcome_.fail(status_damaged);
    };
  }

  void whole_store(const Store& store) {
    for (const auto& name : store.topic_names()) {
      each([&] { named(store, name, {}); });
    }
  }

  void look_at(const std::optional<Store>& store, const Operand& operand) {
    if (operand.topic) return topic(*store, *operand.topic, operand.address);
    operand.path.empty() ? named(*store, operand.address.topic, operand.address) : path(operand.path);
  }

  void named(const Store& store, const std::string& name, const Address& address) {
    std::optional<Topic> found;
    try {
      found = store.find_topic(name);
    } catch (const Error& error) {
      if (!is_unreadable(error)) throw;
      return topic_without_properties(store.topic_directory(name), address, error.what());
    }
    if (found) topic(store, *found, address);
  }

  // The partitions that are there can be looked at all the same.
  void topic_without_properties(const std::string& directory, const Address& address, std::string fault) {
    const auto file = directory + "/topic.properties";
    if (fault.starts_with(file + ": ")) fault.erase(0, file.size() + 2);
    taker()({CheckFinding::Kind::damage, file, {}, {}, {}, {}, fault});
    for (const auto& entry : entries_of(directory)) {
      const auto number = parse_decimal(std::string_view(entry).substr(directory.size() + 1));
      const auto is_meant = [&](PartitionRange range) { return range.first <= *number && *number <= range.last; };
      const auto& ranges = address.partitions;
      if (!number || (!ranges.empty() && std::none_of(ranges.begin(), ranges.end(), is_meant))) continue;
      each([&] {
        const auto why = fault_of(entry);
        why.empty() ? partition(entry, no_positions) : unreadable_partition(entry, why, no_positions);
      });
    }
  }

  void topic(const Store& store, const Topic& topic, const Address& address) {
    for (const int number : expand_partitions(address.partitions, topic)) {
      each([&] {
        const auto directory = partition_directory(topic.directory, number);
        try {
          const auto more = [&](Offset end) { return positions(store, topic, number, end); };
          if (const auto fault = fault_of(directory); !fault.empty() && is_there(store, topic)) {
            return unreadable_partition(directory, fault, more);
          }
          partition(directory, more);
        } catch (const Error& error) {
          if (error.code() != ErrorCode::not_found || is_there(store, topic)) throw;
          notice("topic " + topic.name + " was deleted meanwhile");
        }
      });
    }
  }

  // Why there is nothing in the directory to look into; empty: there is.
  static std::string fault_of(const std::string& directory) {
    try {
      return is_partition(directory) ? "" : "there are no segments in it";
    } catch (const Error& error) {
      return error.code() == ErrorCode::not_found ? "the directory of the partition is missing" : error.what();
    }
  }

  template <class More>
  void unreadable_partition(const std::string& directory, const std::string& fault, More more) {
    taker()({CheckFinding::Kind::damage, directory, {}, {}, {}, {}, fault});
    if (!reindex_) more(Offset{0});
    if (repair_ || reindex_) return;
    CheckResult result;
    result.verdict = Verdict::damaged;
    shown_->summary(directory, result, true);
  }

  static bool is_there(const Store& store, const Topic& topic) {
    const auto now = store.find_topic(topic.name);
    return now && now->id == topic.id;
  }

  // Nothing is taken from what groups have committed; a repair only tells of what is past the end then.
  Verdict positions(const Store& store, const Topic& topic, int number, Offset end) {
    const auto name = topic.name + ":" + std::to_string(number);
    const auto take = [&](CheckFinding finding) {
      if (!finding.group.empty()) finding.reason += " (" + reset_command(store, finding.group, name) + " mends it)";
      if (finding.kind == CheckFinding::Kind::damage || !repair_) taker()(finding);
    };
    return check_group_positions(store, topic, number, take, end);
  }
  static Verdict no_positions(Offset) { return Verdict::clean; }

  std::string question() const {
    return operands_.size() == 1 ? "repair what is damaged in " + operands_[0] + "?" : "repair what is damaged?";
  }

  template <class More>
  void partition(const std::string& directory, More more) {
    if (reindex_) return shown_->reindexed(directory, rebuild_indexes(directory, mend_), dry_run_);
    if (repair_) return repair(directory, more);
    auto result = check_partition(directory, check_, taker());
    if (stop_requested()) return;
    result.verdict = std::max(result.verdict, more(Offset{0}));
    shown_->summary(directory, result, true);
  }

  template <class More>
  void repair(const std::string& directory, More more) {
    repair_partition(directory, mend_, taker(), [&](const RepairResult& result) {
      more(result.end);
      shown_->repaired(directory, result, dry_run_);
    });
  }

  void path(const std::string& path) {
    if (!is_directory(path)) return file(path);
    if (is_partition(path)) return partition(path, no_positions);
    if (std::filesystem::exists(path + "/store.properties")) return whole_store(Store::open(path));
    directory_of_partitions(path);
  }

  void file(const std::string& path) {
    if (repair_ || reindex_) throw UsageError(path + ": is a file; name its directory");
    const auto result = check_file(path, check_, taker());
    if (!stop_requested()) shown_->summary(path, result, false);
  }

  // A broker's log directory, or that of a topic: partitions, and files beside them. What else stands there is not ours to judge.
  void directory_of_partitions(const std::string& directory) {
    bool any = false;
    for (const auto& entry : entries_of(directory)) {
      each([&] {
        if (is_directory(entry)) {
          bool is_one = false;
          try {
            is_one = is_partition(entry);
          } catch (const Error&) {
            return;  // lost+found, which only root may list
          }
          if (!is_one) return;
          any = true;
          partition(entry, no_positions);
        } else if (!repair_ && !reindex_ && file_kind(entry) != FileKind::unknown) {
          file(entry);
        }
      });
    }
    if (!any && !stop_requested()) throw Error(ErrorCode::not_found, "no segments in " + directory);
  }

  std::vector<std::string> operands_;
  bool repair_ = false;
  bool reindex_ = false;
  bool yes_ = false;
  bool dry_run_ = false;
  RepairOptions mend_;
  Table::Style style_;
  CheckOptions check_;
  VerifyOutput* shown_ = nullptr;
  Outcome outcome_;
};

}  // namespace

const CommandEntry verify_command = {"verify", "[TOPIC[:PARTITION]|FILE|DIRECTORY]...",
                                     "check segments, indexes and positions for damage", make_command<Verify>};

}  // namespace partlog::cmd

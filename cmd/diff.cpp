// `partlog diff`
#include <algorithm>
#include <utility>
#include <vector>

#include "address.h"
#include "messages.h"
#include "partlog/store_diff.h"
#include "signals.h"
#include "table.h"
#include "text.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

constexpr std::int64_t default_limit = 1000;

Cell text_cell(const std::optional<std::string>& text) { return text ? Cell(*text) : Cell(); }
Cell offset_cell(const std::optional<Offset>& offset) { return offset ? Cell(offset->value) : Cell(); }

class Diff : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "store", 2);
    options.flag("--common", options_.common_range, "compare the offsets that both have; a log may begin or end elsewhere");
    options.flag("--configs", options_.configs, "compare the settings of topics, too");
    options.flag("--epochs", options_.epochs, "compare the leader epochs of records, too");
    options.number("--limit", "N", limit_, "print at most N rows (default 1000); the others are counted");
    style_.declare(options);
  }

  void validate(const OptionSet&) override {
    for (std::size_t i = 2; i < operands_.size(); ++i) addresses_.push_back(parse_topic_address(operands_[i]));
  }

  int run(const Globals& globals) override {
    if (globals.directory) throw UsageError("diff takes both stores as operands, and no --dir");
    catch_stop_signals();
    const Store left = Store::open(without_final_slashes(operands_[0]));
    const Store right = Store::open(without_final_slashes(operands_[1]));
    options_.found = [this](const Difference& difference) {
      if (std::cmp_less(rows_.size(), limit())) rows_.push_back(difference);
    };
    options_.ended = [this](std::uint64_t number, Offset last) {
      if (number < rows_.size()) rows_[number].last = last;
    };
    options_.stop = &stop_requested();
    StoreDiff diff(left, right, options_);
    if (addresses_.empty()) add_all_topics(left, right);
    for (const auto& address : addresses_) compare(left, right, address, diff);
    print();
    return finish(diff);
  }

 private:
  std::int64_t limit() const { return limit_.value_or(default_limit); }

  void print() const {
    Table table({"topic", "partition", "first_offset", "last_offset", "field", "left", "right"});
    for (const auto& d : rows_) {
      table.add({d.topic, d.partition ? Cell(std::int64_t{*d.partition}) : Cell(), offset_cell(d.first), offset_cell(d.last),
                 d.field, text_cell(d.left), text_cell(d.right)});
    }
    table.print(style_);
  }

  void add_all_topics(const Store& left, const Store& right) {
    auto names = left.topic_names();
    for (auto& name : right.topic_names()) names.push_back(std::move(name));
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const auto& name : names) addresses_.push_back({name, {}, {}});
  }

  void compare(const Store& left, const Store& right, const Address& address, StoreDiff& diff) {
    try {
      const auto one = left.find_topic(address.topic);
      const auto other = right.find_topic(address.topic);
      if (!one && !other) throw Error(ErrorCode::not_found, "neither store has a topic \"" + address.topic + "\"");
      diff.topic(address.topic);
      if (!one || !other) return;
      const auto& larger = one->partitions > other->partitions ? *one : *other;
      for (const int p : expand_partitions(address.partitions, larger)) {
        if (p < std::min(one->partitions, other->partitions) && !stop_requested()) compare(*one, *other, p, diff);
      }
    } catch (const Error& error) {
      outcome_.fail(error);
    }
  }

  void compare(const Topic& left, const Topic& right, int partition, StoreDiff& diff) {
    try {
      diff.partition(left, right, partition);
    } catch (const Error& error) {
      outcome_.fail(error);
    }
  }

  int finish(const StoreDiff& diff) const {
    const auto found = diff.differences();
    if (found > rows_.size()) notice(counted(found - rows_.size(), "more row") + " left out (--limit)");
    if (stop_requested()) return signal_status();
    const bool failed = outcome_.status() != status_done;
    notice(counted(diff.records(), "record") + " compared, " + (found == 0 ? "no difference" : counted(found, "difference")) +
           (failed ? " in what could be read" : ""));
    if (failed) return outcome_.status();
    return found == 0 ? status_done : status_check_failed;
  }

  std::vector<std::string> operands_;
  std::vector<Address> addresses_;
  DiffOptions options_;
  std::optional<std::int64_t> limit_;
  std::vector<Difference> rows_;
  Table::Style style_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry diff_command = {"diff", "STORE STORE [TOPIC[:PARTITIONS]]...", "compare two stores, record by record",
                                   make_command<Diff>};

}  // namespace partlog::cmd

// `partlog dump`
#include "dump_log.h"
#include "dump_side_file.h"
#include "operand.h"
#include "signals.h"
#include "table.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class Dump : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "file or topic", 1);
    options.flag("--records", records_, "the records instead of the batches");
    options.flag("--decode", decode_, "records of __consumer_offsets and __transaction_state as JSON; with --records");
    options.number("--from-offset", "N", range_.from_offset, "from the batch on that holds offset N");
    options.number("--to-offset", "N", range_.to_offset, "up to the batch that holds offset N");
    options.number("--from-position", "N", range_.from_position, "from the first batch on that starts at byte N or behind it");
    options.number("--to-position", "N", range_.to_position, "up to the last batch that starts at byte N or before it");
    style_.declare_endless(options);
    options.require("--decode", {"--records"});
  }

  int run(const Globals& globals) override {
    catch_stop_signals();
    std::optional<Store> store;
    std::vector<Operand> operands;
    for (const auto& text : operands_) {
      try {
        operands.push_back(resolve_operand(text, globals, store));
      } catch (const Error& error) {
        outcome_.fail(error);
      }
    }
    Output output;
    RowOutput rows(output, style_, operands.size() > 1 || may_be_several(operands));
    LogDump log(output, rows, outcome_, records_, decode_);
    for (const auto& operand : operands) {
      if (stop_requested()) break;
      attempt(log, [&] { operand.topic ? dump_topic(operand, log) : dump_path(operand.path, log, rows); });
    }
    output.finish();
    return stop_requested() ? signal_status() : outcome_.status();
  }

 private:
  static bool may_be_several(const std::vector<Operand>& operands) {
    return !operands.empty() && (operands[0].topic ? !operands[0].address.offset : is_directory(operands[0].path));
  }

  template <class Work>
  static void attempt(LogDump& log, Work work) {
    try {
      work();
    } catch (const Error& error) {
      log.fail(error);
    }
  }

  void dump_topic(const Operand& operand, LogDump& log) {
    const auto& address = operand.address;
    for (const int partition : expand_partitions(address.partitions, *operand.topic)) {
      const auto directory = partition_directory(operand.topic->directory, partition);
      attempt(log, [&] { address.offset ? dump_offset(directory, *address.offset, log) : dump_directory(directory, log); });
    }
  }

  void dump_path(const std::string& path, LogDump& log, RowOutput& rows) {
    if (is_directory(path)) return dump_directory(path, log);
    auto kind = file_kind(path);
    if (kind == FileKind::unknown && begins_with_batch(path)) kind = FileKind::batches;
    if (kind == FileKind::unknown) {
      throw Error(ErrorCode::refused,
                  "what kind of file " + path + " is does not follow from its name, and no batch stands in it");
    }
    kind == FileKind::batches ? log.file(path, range_) : dump_side_file(path, kind, rows);
  }

  // Only the segments that can hold something of the range.
  void dump_directory(const std::string& directory, LogDump& log) {
    const auto segments = segment_paths(directory);
    if (segments.empty()) throw Error(ErrorCode::not_found, "no segments in " + directory);
    for (std::size_t i = 0; i < segments.size() && !stop_requested(); ++i) {
      if (range_.from_offset && i + 1 < segments.size() && segments[i + 1].base.value <= *range_.from_offset) continue;
      if (range_.to_offset && segments[i].base.value > *range_.to_offset) break;
      attempt(log, [&] { log.file(segments[i].path, range_); });
    }
  }

  void dump_offset(const std::string& directory, Offset offset, LogDump& log) {
    const auto segments = segment_paths(directory);
    const auto before = log.batches();
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const bool is_here = segments[i].base <= offset && (i + 1 == segments.size() || segments[i + 1].base > offset);
      if (!is_here) continue;
      auto range = range_;
      range.from_offset = range.to_offset = offset.value;
      range.whole_batches = true;
      log.file(segments[i].path, range);
    }
    if (log.batches() > before) return;
    throw Error(ErrorCode::offset_out_of_range, "no batch in " + directory + " holds offset " + std::to_string(offset.value));
  }

  std::vector<std::string> operands_;
  bool records_ = false;
  bool decode_ = false;
  DumpRange range_;
  Table::Style style_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry dump_command = {"dump", "FILE|TOPIC[:PARTITION[:OFFSET]]...",
                                   "look into segment files, indexes and checkpoints", make_command<Dump>};

}  // namespace partlog::cmd

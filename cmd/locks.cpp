// `partlog locks`
#include "partlog/locks.h"

#include "group_commands.h"
#include "table.h"

namespace partlog::cmd {
namespace {

std::string kind_word(LockInfo::Kind kind) {
  switch (kind) {
    case LockInfo::Kind::append:
      return "append";
    case LockInfo::Kind::topic:
      return "topic";
    case LockInfo::Kind::group:
      return "group";
    case LockInfo::Kind::member:
      return "member";
    case LockInfo::Kind::claim:
      return "claim";
    case LockInfo::Kind::offset:
      break;
  }
  return "offset";
}

class Locks : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(none_, "operand", 0, 0);
    options.flag("--all", all_, "all locks there are, also those that nobody holds");
    style_.declare(options);
  }

  int run(const Globals& globals) override {
    Table table({"kind", "topic", "partition", "group", "member", "host", "pid", "since", "held"});
    Outcome outcome;
    for (const auto& lock : locks(open_store(globals), all_)) {
      std::vector<Cell> row = {kind_word(lock.kind), text_cell(lock.topic),
                               lock.partition ? Cell(std::int64_t{*lock.partition}) : Cell(), text_cell(lock.group),
                               text_cell(lock.member)};
      if (!lock.fault.empty()) {
        table.add_failed(std::move(row), lock.fault);
        outcome.fail(Error(ErrorCode::io, lock.fault));
        continue;
      }
      row.insert(row.end(), {text_cell(lock.host), lock.pid == 0 ? Cell() : Cell(std::int64_t{lock.pid}), time_cell(lock.since),
                             Cell(lock.held)});
      table.add(std::move(row));
    }
    table.print(style_);
    return outcome.status();
  }

 private:
  static Cell text_cell(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

  std::vector<std::string> none_;
  bool all_ = false;
  Table::Style style_;
};

}  // namespace

const CommandEntry locks_command = {"locks", "", "list who holds which lock, and since when", make_command<Locks>};

}  // namespace partlog::cmd

#include "options.h"

#include <gtest/gtest.h>

#include "exit_status.h"

namespace partlog::cmd {
namespace {

using Arguments = std::vector<std::string>;

// A set with one option of each kind.
struct Sample {
  OptionSet options;
  bool follow = false;
  bool quiet = false;
  bool only = false;
  std::optional<std::string> offset, delimiter;
  std::vector<std::string> headers, operands;
  std::optional<std::int64_t> count;
  std::optional<std::chrono::milliseconds> timeout;

  explicit Sample(Arguments arguments) {
    options.flag("-F,--follow", follow, "help");
    options.flag("-q,--quiet", quiet, "help");
    options.text("-o,--offset", "WHERE", offset, "help");
    options.escaped("-D,--delimiter", "DELIM", delimiter, "help");
    options.list("-H,--header", "NAME", headers, "help");
    options.number("-c,--count", "N", count, "help", 1, 100);
    options.duration("--timeout", timeout, "help");
    options.refuse("-n", "there is no -n");
    options.operands(operands, "topic", 1, 3);
    options.conflict("--follow", {"--offset", "--timeout"});
    options.flag("--only", only, "help");
    options.require("--only", {"--offset", "--follow"});
    options.parse(std::move(arguments));
  }
};

std::string failure(Arguments arguments) {
  try {
    Sample sample(std::move(arguments));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Options, BeforeAndAfterOperands) {
  Sample sample({"-q", "a", "--offset", "end", "b", "-c3"});
  EXPECT_TRUE(sample.quiet);
  EXPECT_EQ(sample.offset, "end");
  EXPECT_EQ(sample.count, 3);
  EXPECT_EQ(sample.operands, (Arguments{"a", "b"}));
}

TEST(Options, ValuesMayLookLikeOptions) {
  EXPECT_EQ(Sample({"-o", "-10", "t"}).offset, "-10");
  EXPECT_EQ(Sample({"-o-10", "t"}).offset, "-10");
  EXPECT_EQ(Sample({"--offset=-10", "t"}).offset, "-10");
  EXPECT_EQ(Sample({"--offset", "--follow", "t"}).offset, "--follow");
  EXPECT_EQ(Sample({"-D", "-", "t"}).delimiter, "-");
  EXPECT_EQ(Sample({"-H", "--", "t"}).headers, (Arguments{"--"}));
  EXPECT_EQ(Sample({"-H", "[a]", "-H", "{}", "-H", "%%", "t"}).headers, (Arguments{"[a]", "{}", "%%"}));
}

TEST(Options, EmptyValues) {
  EXPECT_EQ(Sample({"--offset=", "t"}).offset, "");
  EXPECT_EQ(Sample({"-o", "", "t"}).offset, "");
  EXPECT_EQ(Sample({"-H", "--header=", "t"}).headers, (Arguments{"--header="}));
  EXPECT_EQ(Sample({"-H=", "t"}).headers, (Arguments{"="}));
  EXPECT_EQ(Sample({"", "t"}).operands, (Arguments{"", "t"}));
}

TEST(Options, TwoDashesEndThem) {
  EXPECT_EQ(Sample({"-q", "--", "-F", "--count=", "--"}).operands, (Arguments{"-F", "--count=", "--"}));
  EXPECT_EQ(Sample({"-", "[x]"}).operands, (Arguments{"-", "[x]"}));
}

TEST(Options, LettersTogetherAndLastValueCounts) {
  Sample sample({"-Fqc2", "-c", "010", "t"});
  EXPECT_TRUE(sample.follow && sample.quiet);
  EXPECT_EQ(sample.count, 10);
}

TEST(Options, EscapesAndDurations) {
  EXPECT_EQ(Sample({"-D", "\\n\\x41", "t"}).delimiter, "\nA");
  EXPECT_EQ(Sample({"--timeout", "1m30s", "t"}).timeout, std::chrono::seconds(90));
}

TEST(Options, OneMessageForEachMistake) {
  EXPECT_EQ(failure({"t", "--folow"}), "unknown option --folow (did you mean --follow?)");
  EXPECT_EQ(failure({"t", "-x"}), "unknown option -x");
  EXPECT_EQ(failure({"t", "--foll"}), "unknown option --foll (did you mean --follow?)");
  EXPECT_EQ(failure({"t", "-o"}), "--offset needs a value");
  EXPECT_EQ(failure({"t", "--follow=yes"}), "--follow takes no value");
  EXPECT_EQ(failure({"t", "-F", "--offset=1"}), "--follow cannot be combined with --offset");
  EXPECT_EQ(failure({"t", "-c", "101"}), "--count needs a whole number from 1 to 100, not '101'");
  EXPECT_EQ(failure({"t", "-c", "0x9"}), "--count needs a whole number from 1 to 100, not '0x9'");
  EXPECT_EQ(failure({"t", "--timeout", "5"}), "--timeout needs a duration such as 500ms, 10s or 1h30m, not '5'");
  EXPECT_EQ(failure({"t", "--timeout", "36501d"}), "--timeout: '36501d' is out of range: 36500d at most");
  EXPECT_EQ(failure({"t", "--only"}), "--only goes with --offset or --follow only");
  EXPECT_EQ(failure({"t", "-t", "x"}), "unknown option -t (topics are operands: partlog consume TOPIC, partlog produce TOPIC)");
  EXPECT_EQ(failure({"t", "--bootstrap-server=x"}),
            "unknown option --bootstrap-server (there is no broker: --dir names the directory of the store)");
  EXPECT_EQ(failure({"t", "-n"}), "there is no -n");
  EXPECT_EQ(failure({"-q"}), "a topic is missing");
  EXPECT_EQ(failure({"a", "b", "c", "d"}), "3 topics at most are taken, but 'd' follows");
}

TEST(Options, PrefixEndsAtTheFirstOperand) {
  OptionSet options;
  bool quiet = false;
  options.flag("-q,--quiet", quiet, "help");
  EXPECT_EQ(options.parse_prefix({"-q", "produce", "-K:", "--", "-x"}), (Arguments{"produce", "-K:", "--", "-x"}));
  EXPECT_TRUE(quiet);
  EXPECT_THROW(options.parse_prefix({"--quit", "produce"}), UsageError);
}

}  // namespace
}  // namespace partlog::cmd

#include "format/checkpoint.h"

#include <gtest/gtest.h>

#include <set>

#include "bytes_of.h"
#include "message_of.h"

namespace partlog::format {
namespace {

template <class Parse>
std::string damage(Parse parse, std::string_view text) {
  return test::message_of(ErrorCode::damaged, [&] { parse(text, "p"); });
}

}  // namespace

TEST(Checkpoint, LeaderEpochs) {
  const std::vector<EpochStart> epochs{{0, Offset{0}}, {3, Offset{17}}};
  EXPECT_EQ(format_leader_epochs(epochs), "0\n2\n0 0\n3 17\n");
  EXPECT_EQ(parse_leader_epochs("0\n2\n0 0\n3 17\n", "p"), epochs);
  EXPECT_EQ(parse_leader_epochs("0\n0\n", "p"), std::vector<EpochStart>{});
}

TEST(Checkpoint, DamagedLeaderEpochs) {
  const auto parse = parse_leader_epochs;
  EXPECT_EQ(damage(parse, ""), "p: line 1: the file ends before the version");
  EXPECT_EQ(damage(parse, "1\n0\n"), "p: line 1: not a number in range: \"1\"");
  EXPECT_EQ(damage(parse, "0\n"), "p: line 2: the file ends before the number of epochs");
  EXPECT_EQ(damage(parse, "0\n-1\n"), "p: line 2: not a number in range: \"-1\"");
  EXPECT_EQ(damage(parse, "0\n2\n0 0\n"), "p: line 4: the file ends before the last epoch");
  EXPECT_EQ(damage(parse, "0\n2147483647\n0 0\n"), "p: line 4: the file ends before the last epoch");
  EXPECT_EQ(damage(parse, "0\n1\n0 0\n1 5\n"), "p: line 4: more lines than there should be");
  EXPECT_EQ(damage(parse, "0\n1\n0\n"), "p: line 3: not a number in range: \"\"");
  EXPECT_EQ(damage(parse, "0\n1\n0 0 0\n"), "p: line 3: not a number in range: \"0 0\"");
  EXPECT_EQ(damage(parse, "0\n1\n2147483648 0\n"), "p: line 3: not a number in range: \"2147483648\"");
  EXPECT_EQ(damage(parse, "0\n2\n1 5\n1 6\n"), "p: line 4: epochs and their start offsets do not rise");
  EXPECT_EQ(damage(parse, "0\n2\n1 5\n2 4\n"), "p: line 4: epochs and their start offsets do not rise");
}

TEST(Checkpoint, PartitionMetadata) {
  const std::string text = "version: 0\ntopic_id: JWzPWgOsTDqCV2TLEX2N3g\n";
  EXPECT_EQ(parse_partition_metadata(text, "p"), "JWzPWgOsTDqCV2TLEX2N3g");
  EXPECT_EQ(parse_partition_metadata(text.substr(0, text.size() - 1), "p"), "JWzPWgOsTDqCV2TLEX2N3g");  // as a broker writes it
  EXPECT_EQ(format_partition_metadata("JWzPWgOsTDqCV2TLEX2N3g"), text);
  const auto parse = parse_partition_metadata;
  EXPECT_EQ(damage(parse, "version: 1\ntopic_id: JWzPWgOsTDqCV2TLEX2N3g\n"), "p: line 1: not \"version: 0\"");
  EXPECT_EQ(damage(parse, "version: 0\n"), "p: line 2: the file ends before the topic id");
  EXPECT_EQ(damage(parse, "version: 0\ntopic_id: short\n"), "p: line 2: not a topic id");
  EXPECT_EQ(damage(parse, "version: 0\ntopic_id: JWzPWgOsTDqCV2TLEX2N3+\n"), "p: line 2: not a topic id");
}

TEST(Checkpoint, UuidsAreRandomVersion4InUrlSafeBase64) {
  std::set<std::string> seen;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = random_uuid();
    EXPECT_EQ(parse_partition_metadata(format_partition_metadata(id), "p"), id);
    EXPECT_NE(id.front(), '-');
    EXPECT_TRUE(id[8] == 'Q' || id[8] == 'R' || id[8] == 'S' || id[8] == 'T') << id;  // bits 48 to 53: version 4 and two more
    EXPECT_NE(std::string("AQgw").find(id.back()), std::string::npos) << id;          // 2 bits left, 4 zero bits
    EXPECT_TRUE(seen.insert(id).second);
  }
}

TEST(Checkpoint, LogStartOffset) {
  EXPECT_EQ(format_log_start_offset(Offset{12}), "12\n");
  EXPECT_EQ(parse_log_start_offset("12\n", "p"), Offset{12});
  const auto parse = parse_log_start_offset;
  for (const char* text : {"", "\n", "-1\n", "12 \n", "x\n", "9223372036854775808\n", "1\n2\n"})
    EXPECT_NE(damage(parse, text), "") << text;
}

TEST(Checkpoint, RecoveryPoint) {
  const RecoveryPoint point{Offset{12}, Offset{5}, Position{4711}, "b-1"};
  EXPECT_EQ(format_recovery_point(point), "boot_id=b-1\noffset=12\nposition=4711\nsegment=5\n");
  EXPECT_EQ(parse_recovery_point(format_recovery_point(point), "p"), point);
  const auto parse = parse_recovery_point;
  EXPECT_EQ(damage(parse, "offset=12\nposition=1\nsegment=5\n"), "p: there is no \"boot_id\"");
  EXPECT_EQ(damage(parse, "boot_id=b\noffset=12\nsegment=5\n"), "p: there is no \"position\"");
  EXPECT_EQ(damage(parse, "boot_id=b\noffset=-1\nposition=1\nsegment=5\n"), "p: \"offset\" is negative");
}

TEST(Checkpoint, Cuts) {
  EXPECT_EQ(format_cut({Offset{9}, "b-1", "2024-05-06T07:08:09Z"}), "9 b-1 2024-05-06T07:08:09Z\n");
  const auto cuts = parse_cuts("9 b-1 2024-05-06T07:08:09Z\n10 b-2 t\n", "p");
  ASSERT_EQ(cuts.size(), 2u);
  EXPECT_EQ(cuts[0].offset, Offset{9});
  EXPECT_EQ(cuts[0].boot_id, "b-1");
  EXPECT_EQ(cuts[0].time, "2024-05-06T07:08:09Z");
  EXPECT_EQ(cuts[1].offset, Offset{10});
  EXPECT_TRUE(parse_cuts("", "p").empty());
  EXPECT_EQ(damage(parse_cuts, "9 b t\n9 b\n"), "p: line 2: not \"offset boot_id time\"");
  EXPECT_EQ(damage(parse_cuts, "x b t\n"), "p: line 1: not a number in range: \"x\"");
}

TEST(Checkpoint, HostileTextGivesAnErrorAndNoMore) {
  auto random = test::random_source();
  const auto survives = [](auto parse, const std::string& text) {
    try {
      parse(text, "p");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::damaged);
    }
  };
  for (int i = 0; i < 5000; ++i) {
    survives(parse_leader_epochs, test::damaged(random, "0\n2\n0 0\n3 17\n"));
    survives(parse_partition_metadata, test::damaged(random, "version: 0\ntopic_id: JWzPWgOsTDqCV2TLEX2N3g\n"));
    survives(parse_log_start_offset, test::damaged(random, "1234\n"));
    survives(parse_recovery_point, test::damaged(random, "boot_id=b-1\noffset=12\nposition=4711\nsegment=5\n"));
    survives(parse_cuts, test::damaged(random, "9 b-1 t\n10 b-2 t\n"));
  }
}

}  // namespace partlog::format

#include "group/member_table.h"

#include <gtest/gtest.h>

#include "partlog/error.h"

namespace partlog::group {
namespace {

const std::string whole =
    "assignor=sticky\n"
    "generation=7\n"
    "member.host.example-7-ab.assigned=clicks:0-3,6 views:0\n"
    "member.host.example-7-ab.commits=true\n"
    "member.host.example-7-ab.host=host.example\n"
    "member.host.example-7-ab.pid=7\n"
    "member.host.example-7-ab.responds=true\n"
    "member.host.example-7-ab.since=2026-01-31T12:00:00.007Z\n"
    "member.host.example-7-ab.topics=clicks views\n"
    "member.other-8-cd.assigned=\n"
    "member.other-8-cd.commits=false\n"
    "member.other-8-cd.host=other\n"
    "member.other-8-cd.pid=8\n"
    "member.other-8-cd.responds=false\n"
    "member.other-8-cd.since=2026-01-31T12:00:00.008Z\n"
    "member.other-8-cd.topics=views\n"
    "topic.clicks=AAAAAAAAAAAAAAAAAAAAAA 7\n"
    "topic.views=BBBBBBBBBBBBBBBBBBBBBB 1\n";

TEST(MemberTable, GoesThereAndBack) {
  const auto table = parse_member_table(whole, "group.properties");
  EXPECT_EQ(table.generation, 7);
  EXPECT_EQ(table.assignor, "sticky");
  ASSERT_EQ(table.members.size(), 2u);
  const auto& member = table.members[0];
  EXPECT_EQ(member.id, "host.example-7-ab");
  EXPECT_EQ(member.host, "host.example");
  EXPECT_EQ(member.pid, 7);
  EXPECT_EQ(member.since, Timestamp{1'769'860'800'007});
  EXPECT_TRUE(member.commits);
  EXPECT_EQ(member.topics, (std::vector<std::string>{"clicks", "views"}));
  EXPECT_EQ(member.assigned, (std::vector<TopicPartition>{
                                 {"clicks", 0}, {"clicks", 1}, {"clicks", 2}, {"clicks", 3}, {"clicks", 6}, {"views", 0}}));
  EXPECT_TRUE(member.responds);
  EXPECT_FALSE(table.members[1].commits);
  EXPECT_FALSE(table.members[1].responds);
  EXPECT_TRUE(table.members[1].assigned.empty());
  EXPECT_EQ(table.find("other-8-cd"), &table.members[1]);
  EXPECT_EQ(table.find("other"), nullptr);
  EXPECT_EQ(table.topics.at("clicks"), (KnownTopic{"AAAAAAAAAAAAAAAAAAAAAA", 7}));
  EXPECT_EQ(format_member_table(table), whole);
}

std::string with(const std::string& key, const std::string& value) {
  auto text = whole;
  const auto at = text.find(key + "=");
  text.replace(at, text.find('\n', at) - at, key + "=" + value);
  return text;
}

// No number in it may make more of it than a topic can have.
// By one member or by two: each line alone is what a topic can have, and all together would be without end.
TEST(MemberTable, NothingIsAssignedTwice) {
  for (const auto* assigned :
       {"clicks:0-3,2", "clicks:0-6,0-6", "clicks:0-3,3", "clicks:1 clicks:0", "clicks:1 clicks:1", "views:0 clicks:0"}) {
    EXPECT_THROW(parse_member_table(with("member.host.example-7-ab.assigned", assigned), "f"), Error) << assigned;
  }
  EXPECT_THROW(parse_member_table(with("member.other-8-cd.assigned", "views:0"), "f"), Error);
  EXPECT_THROW(parse_member_table(with("member.other-8-cd.assigned", "clicks:2"), "f"), Error);
  EXPECT_NO_THROW(parse_member_table(with("member.other-8-cd.assigned", "clicks:4-5"), "f"));
}

TEST(MemberTable, ManyLargeTopicsAreTooMany) {
  std::string text = "assignor=sticky\ngeneration=1\n";
  for (int i = 0; i < 10; ++i) text += "topic.t" + std::to_string(i) + "=id 100000\n";
  EXPECT_NO_THROW(parse_member_table(text, "f"));
  EXPECT_THROW(parse_member_table(text + "topic.u=id 1\n", "f"), Error);
}

// The next one has to be larger.
TEST(MemberTable, GenerationLeavesRoom) {
  for (const auto* generation : {"9223372036854775807", "-1"}) {
    EXPECT_THROW(parse_member_table(with("generation", generation), "f"), Error) << generation;
  }
}

TEST(MemberTable, DamagedOnesAreErrorsAndCostNoMemory) {
  std::vector<std::string> bad{"",
                               "garbage\n",
                               whole.substr(0, whole.size() - 1),
                               with("generation", "x"),
                               with("member.other-8-cd.pid", "-1"),
                               with("member.other-8-cd.pid", "2147483648"),
                               with("member.other-8-cd.since", "today"),
                               with("member.other-8-cd.commits", "yes"),
                               with("topic.clicks", "x"),
                               with("topic.clicks", "x -1"),
                               with("topic.clicks", "x 100001"),
                               with("topic.clicks", "x 2147483647"),
                               whole + "member.x=1\n",
                               whole + "member.a b.host=h\n"};
  for (const char* assigned : {"clicks", "clicks:", "clicks:7", "clicks:0-7", "clicks:3-0", "clicks:-1", "clicks:a", "none:0",
                               "clicks:0,0", "clicks:0-3,2", "clicks:1 clicks:0", "clicks:1 clicks:1", "views:0 clicks:0"}) {
    bad.push_back(with("member.other-8-cd.assigned", assigned));
  }
  for (const auto& text : bad) {
    try {
      parse_member_table(text, "the/file");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::damaged) << text;
      EXPECT_TRUE(std::string(error.what()).starts_with("the/file: ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace partlog::group

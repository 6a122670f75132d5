#include <gtest/gtest.h>

#include "address.h"
#include "exit_status.h"
#include "text.h"

namespace partlog::cmd {
namespace {

using namespace std::string_literals;

TEST(Escapes, EveryForm) {
  EXPECT_EQ(unescape("a\\n\\r\\t\\0\\\\\\x41\\xfFz", "-K"), "a\n\r\t\0\\A\xffz"s);
  EXPECT_EQ(unescape("", "-K"), "");
  for (const char* text : {"\\", "\\q", "\\x4", "\\xg0", "a\\"}) EXPECT_THROW(unescape(text, "-K"), UsageError) << text;
}

TEST(Escapes, WhatNoTerminalIsToBeShown) {
  const auto shown = [](std::string_view text, bool is_field) {
    std::string out;
    append_visible(out, text, is_field);
    return out;
  };
  EXPECT_EQ(shown("a\\\tb", true), "a\\\\\\tb");
  EXPECT_EQ(shown("a\\\tb", false), "a\\\\tb");
  EXPECT_EQ(shown("\x9b"
                  "2J\x1b\x7f",
                  false),
            "\\x9b2J\\x1b\\x7f");
  EXPECT_EQ(shown("\xc2\x80\xc2\x9f\xc2\xa0\xc3\xbc", false), "\\xc2\\x80\\xc2\\x9f\xc2\xa0\xc3\xbc");
  EXPECT_EQ(shown("\xe2\x82\xac\xe2\x82", false), "\xe2\x82\xac\\xe2\\x82");
}

TEST(Numbers, AreDecimal) {
  EXPECT_EQ(parse_decimal("010"), 10);
  EXPECT_EQ(parse_decimal("-5"), -5);
  for (const char* text : {"", "0x10", "1 ", " 1", "+1", "1.0", "99999999999999999999"}) {
    EXPECT_EQ(parse_decimal(text), std::nullopt) << text;
  }
}

TEST(Base64, BothWays) {
  for (std::string bytes : {""s, "f"s, "fo"s, "foo"s, "\0\xff\xfe"s}) {
    std::string text;
    append_base64(text, bytes);
    const auto size = decode_base64(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(text.substr(0, *size), bytes);
  }
  for (std::string text : {"Zg=", "Zg", "Z===", "Z!==", "Zg==Zg==", "===="}) EXPECT_FALSE(decode_base64(text)) << text;
}

TEST(Utf8, OnlyWhatTheStandardAllows) {
  for (const char* text :
       {"", "plain ascii, longer than a word", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text : {"\xff", "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3",
                           "\xe2\x82", "eight in front \xf0\x9f\x98"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Addresses, EveryForm) {
  EXPECT_TRUE(parse_address("t").partitions.empty());
  Address address = parse_address("t.x-1:0,2-4");
  EXPECT_EQ(address.topic, "t.x-1");
  ASSERT_EQ(address.partitions.size(), 2u);
  EXPECT_EQ(address.partitions[1].first, 2);
  EXPECT_EQ(address.partitions[1].last, 4);
  EXPECT_EQ(parse_address("t:3:17").offset, Offset{17});
  for (const char* text :
       {"t:", "t:x", "t:1,", "t:-1", "t:3-1", "t:1:", "t:1:x", "t:1:-1", "t:0,1:5", "t:0-1:5", "t:1:2:3", "t:9999999999"}) {
    EXPECT_THROW(parse_address(text), UsageError) << text;
  }
}

TEST(Addresses, PartitionsInTheOrderWrittenAndOnce) {
  Topic topic;
  topic.name = "t";
  topic.partitions = 4;
  EXPECT_EQ(expand_partitions({}, topic), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(expand_partitions(parse_address("t:3,0-2,1").partitions, topic), (std::vector<int>{3, 0, 1, 2}));
  EXPECT_THROW(expand_partitions(parse_address("t:2-2000000000").partitions, topic), Error);
}

}  // namespace
}  // namespace partlog::cmd

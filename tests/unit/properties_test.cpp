#include "format/properties.h"

#include <gtest/gtest.h>

#include "bytes_of.h"
#include "message_of.h"

namespace partlog::format {

TEST(Properties, ParsesKeysValuesCommentsAndBlankLines) {
  const Properties p = parse_properties("# made by hand\n\nb=2\na=x=y\nempty=\n spaced = kept \nlast=no newline", "f");
  EXPECT_EQ(p, (Properties{{"a", "x=y"}, {"b", "2"}, {"empty", ""}, {" spaced ", " kept "}, {"last", "no newline"}}));
}

TEST(Properties, FormatIsSortedAndComesBack) {
  const Properties p{{"z", "1"}, {"a", " two "}, {"m", "x=y"}};
  EXPECT_EQ(format_properties(p), "a= two \nm=x=y\nz=1\n");
  EXPECT_EQ(parse_properties(format_properties(p), "f"), p);
}

TEST(Properties, DamageIsNamedByLine) {
  const auto parse = [](std::string_view text) {
    return test::message_of(ErrorCode::damaged, [&] { parse_properties(text, "d/f"); });
  };
  EXPECT_EQ(parse("a=1\nrubbish\n"), "d/f: line 2: not key=value");
  EXPECT_EQ(parse("=1\n"), "d/f: line 1: not key=value");
  EXPECT_EQ(parse("a=1\n# c\na=1\n"), "d/f: line 3: \"a\" occurs twice");
}

TEST(Properties, WhatDoesNotFitOnALineIsRefused) {
  for (const Properties& p : {Properties{{"a", "1\n2"}}, {{"a\n", "1"}}, {{"a=b", "1"}}, {{"#a", "1"}}, {{"", "1"}}}) {
    EXPECT_NE(test::message_of(ErrorCode::invalid_argument, [&] { format_properties(p); }), "");
  }
}

TEST(Properties, Integers) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "0x1", "9223372036854775808", "-", "1k"})
    EXPECT_FALSE(parse_integer(text)) << text;

  const Properties p{{"n", "42"}, {"bad", "4 2"}};
  EXPECT_EQ(integer_property(p, "n", "f"), 42);
  EXPECT_EQ(test::message_of(ErrorCode::damaged, [&] { integer_property(p, "m", "f"); }), "f: there is no \"m\"");
  EXPECT_EQ(test::message_of(ErrorCode::damaged, [&] { integer_property(p, "bad", "f"); }),
            "f: \"bad\" is not an integer: \"4 2\"");
}

TEST(Properties, HostileTextGivesAnErrorOrComesBack) {
  auto random = test::random_source();
  for (int i = 0; i < 20000; ++i) {
    const std::string text = test::damaged(random, "offset=12\nsegment=0\nposition=812\nboot_id=3f\n");
    try {
      const Properties p = parse_properties(text, "f");
      EXPECT_EQ(parse_properties(format_properties(p), "f"), p);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::damaged);
    }
  }
}

}  // namespace partlog::format

#include "offsets_file.h"

#include <gtest/gtest.h>

#include "messages.h"
#include "partlog/error.h"

namespace partlog::cmd {
namespace {

// "topic:partition:offset" of each row, or the message of the fault.
std::string read(std::string_view text, std::string_view group = "g") {
  set_verbosity(true, false);
  std::string rows;
  try {
    for (const auto& row : parse_offsets(text, "file", group)) {
      rows += row.topic + ':' + std::to_string(row.partition) + ':' + std::to_string(row.offset.value) + ' ';
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::refused);
    rows = error.what();
  }
  set_verbosity(false, false);
  return rows;
}

TEST(OffsetsFile, ThreeOrFourColumns) {
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("t,0,5\nt,1,9223372036854775807"), "t:0:5 t:1:9223372036854775807 ");
  EXPECT_EQ(read("g,t,0,5\nh,t,0,6\nh,t,1,6\nt,1,7\n"), "t:0:5 t:1:7 ");
  EXPECT_EQ(read("\r\n\n  \nt,010,05\r\n"), "t:10:5 ");
}

TEST(OffsetsFile, QuotesAsKafkaWritesThem) {
  EXPECT_EQ(read("\"a-name-longer-than-24-characters\",0,5\n\"g\",\"t\",\"1\",\"6\"\n"),
            "a-name-longer-than-24-characters:0:5 t:1:6 ");
  EXPECT_EQ(read("\"a\"\"b\",0,5"), "file:1: topic name \"a\"b\": has a character other than a-z, A-Z, 0-9, '.', '_', '-'");
  const std::string no_row = "file:1: not topic,partition,offset, nor these with the group first";
  EXPECT_EQ(read("\"t,0,5"), no_row);
  EXPECT_EQ(read("\"t\"x,0,5"), no_row);
}

TEST(OffsetsFile, FaultsNameTheLine) {
  const std::string no_row = ": not topic,partition,offset, nor these with the group first";
  EXPECT_EQ(read("t,0,5\nt,1"), "file:2" + no_row);
  EXPECT_EQ(read("\nt 0 5"), "file:2" + no_row);
  EXPECT_EQ(read("g,t,0,5,x"), "file:1" + no_row);
  EXPECT_EQ(read("topic,partition,offset"), "file:1: 'partition' is no partition");
  EXPECT_EQ(read("t,2147483648,5"), "file:1: '2147483648' is no partition");
  EXPECT_EQ(read("t,0,-1"), "file:1: '-1' is no offset");
  EXPECT_EQ(read("t,0, 1"), "file:1: ' 1' is no offset");
  EXPECT_EQ(read("t,0,9223372036854775808"), "file:1: '9223372036854775808' is no offset");
  EXPECT_EQ(read(",t,0,1"), "file:1: the group is empty");
  EXPECT_EQ(read("t,0,1\nu,0,1\ng,t,0,1"), "file:3: partition 0 of topic t stands in line 1 already");
}

TEST(OffsetsFile, WhatIsWrittenIsRead) {
  std::string text;
  append_offset_row(text, "t", 3, {14});
  append_offset_row(text, "u", 0, {0});
  EXPECT_EQ(text, "t,3,14\nu,0,0\n");
  EXPECT_EQ(read(text), "t:3:14 u:0:0 ");
}

}  // namespace
}  // namespace partlog::cmd

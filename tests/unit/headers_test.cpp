#include <gtest/gtest.h>

#include "bytes_of.h"
#include "partlog/record.h"

namespace partlog {
namespace {

std::string_view bytes_of(HeaderBlock block) { return {block.data, block.size}; }

TEST(Headers, EncodedAsInARecord) {
  HeaderBuilder builder;
  EXPECT_EQ(builder.block().count, 0u);
  EXPECT_EQ(builder.block().size, 0u);
  builder.add("id", Bytes("7"));
  builder.add("", Bytes());
  builder.add("e", Bytes(""));
  EXPECT_EQ(builder.block().count, 3u);
  EXPECT_EQ(test::to_hex(bytes_of(builder.block())),
            "046964"
            "0237"
            "00"
            "01"
            "0265"
            "00");
  builder.clear();
  EXPECT_EQ(builder.block().count, 0u);
  EXPECT_EQ(builder.block().size, 0u);
}

TEST(Headers, CursorGivesThemInOrderAndTellsNullFromEmpty) {
  const std::string bytes = test::from_hex("046964 0237 00 01 0265 00");
  HeaderCursor cursor({bytes.data(), static_cast<std::uint32_t>(bytes.size()), 3});
  Header h;
  ASSERT_TRUE(cursor.next(h));
  EXPECT_EQ(h.name, "id");
  EXPECT_EQ(h.value, Bytes("7"));
  ASSERT_TRUE(cursor.next(h));
  EXPECT_EQ(h.name, "");
  EXPECT_TRUE(h.value.is_null());
  ASSERT_TRUE(cursor.next(h));
  EXPECT_EQ(h.name, "e");
  EXPECT_FALSE(h.value.is_null());
  EXPECT_EQ(h.value.size(), 0u);
  EXPECT_FALSE(cursor.next(h));
}

TEST(Headers, LongOnesComeBack) {
  HeaderBuilder builder;
  for (std::size_t size : {63u, 64u, 8191u, 8192u, 2000000u}) builder.add(std::string(size, 'n'), Bytes(std::string(size, 'v')));
  HeaderCursor cursor(builder.block());
  Header h;
  for (std::size_t size : {63u, 64u, 8191u, 8192u, 2000000u}) {
    ASSERT_TRUE(cursor.next(h));
    EXPECT_EQ(h.name, std::string(size, 'n'));
    EXPECT_EQ(h.value.view(), std::string(size, 'v'));
  }
  EXPECT_FALSE(cursor.next(h));
}

}  // namespace
}  // namespace partlog

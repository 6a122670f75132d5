#include "format/index_entry.h"

#include <gtest/gtest.h>

#include "bytes_of.h"

namespace partlog::format {

TEST(IndexEntry, OffsetEntryIsRelativeOffsetAndPosition) {
  const auto bytes = encode(OffsetIndexEntry{Offset{0x100000102}, Position{0x7fffffff}}, Offset{0x100000000});
  EXPECT_EQ(test::to_hex({bytes.data(), bytes.size()}), "000001027fffffff");
  EXPECT_EQ(decode_offset_index_entry(bytes.data(), Offset{10}), (OffsetIndexEntry{Offset{0x102 + 10}, Position{0x7fffffff}}));
}

TEST(IndexEntry, TimeEntryIsTimestampAndRelativeOffset) {
  const auto bytes = encode(TimeIndexEntry{Timestamp{1650945571227}, Offset{435}}, Offset{400});
  EXPECT_EQ(test::to_hex({bytes.data(), bytes.size()}), "000001806406399b00000023");
  EXPECT_EQ(decode_time_index_entry(bytes.data(), Offset{400}), (TimeIndexEntry{Timestamp{1650945571227}, Offset{435}}));
}

TEST(IndexEntry, HostileBytesAreJustNumbers) {
  const std::string bytes(12, '\xff');
  EXPECT_EQ(decode_offset_index_entry(bytes.data(), Offset{5}), (OffsetIndexEntry{Offset{4}, Position{-1}}));
  EXPECT_EQ(decode_time_index_entry(bytes.data(), Offset{5}), (TimeIndexEntry{Timestamp{-1}, Offset{4}}));
}

TEST(IndexEntryDeathTest, OffsetsMustFit) {
  EXPECT_DEATH(encode(OffsetIndexEntry{Offset{1} + 0x80000000, Position{0}}, Offset{0}), "internal error");
  EXPECT_DEATH(encode(TimeIndexEntry{Timestamp{0}, Offset{1}}, Offset{2}), "internal error");
}

}  // namespace partlog::format

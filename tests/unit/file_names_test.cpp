#include "format/file_names.h"

#include <gtest/gtest.h>

namespace partlog::format {

TEST(FileNames, SegmentNamesGoThereAndBack) {
  EXPECT_EQ(segment_file_name(Offset{7}, log_suffix), "00000000000000000007.log");
  EXPECT_EQ(segment_file_name(Offset{INT64_MAX}, time_index_suffix), "09223372036854775807.timeindex");
  EXPECT_EQ(parse_segment_file_name("00000000000000000007.log", log_suffix), Offset{7});
  EXPECT_EQ(parse_segment_file_name("09223372036854775807.timeindex", time_index_suffix), Offset{INT64_MAX});
}

TEST(FileNames, NothingElseIsASegment) {
  for (const char* name :
       {"", ".log", "7.log", "0000000000000000007.log", "000000000000000000007.log", "00000000000000000007.index",
        "00000000000000000007.log.deleted", "0000000000000000000a.log", "-0000000000000000007.log", "+0000000000000000007.log",
        " 0000000000000000007.log", "09223372036854775808.log", "99999999999999999999.log", "00000000000000000007.LOG"}) {
    EXPECT_FALSE(parse_segment_file_name(name, log_suffix)) << name;
  }
  EXPECT_FALSE(parse_segment_file_name("00000000000000000007.timeindex", index_suffix));
}

TEST(FileNames, CutBytesDoNotLookLikeASegment) {
  EXPECT_EQ(cut_file_name(Offset{7}, Position{4711}), "00000000000000000007.4711.cut");
  EXPECT_FALSE(parse_segment_file_name(cut_file_name(Offset{7}, Position{0}), ".cut"));
}

TEST(FileNames, KafkasRuleForNames) {
  for (const char* name : {"a", "A.b_c-9", "...", "-", "__consumer_offsets"}) EXPECT_EQ(name_fault(name), "") << name;
  EXPECT_EQ(name_fault(std::string(249, 'x')), "");
  EXPECT_EQ(name_fault(std::string(250, 'x')), "is longer than 249 characters");
  EXPECT_EQ(name_fault(""), "is empty");
  EXPECT_EQ(name_fault("."), "is \".\" or \"..\"");
  EXPECT_EQ(name_fault(".."), "is \".\" or \"..\"");
  for (const char* name : {"a/b", "a b", "a\n", "\xc3\xa4", "a:b", "a*"}) {
    EXPECT_EQ(name_fault(name), "has a character other than a-z, A-Z, 0-9, '.', '_', '-'") << name;
  }
  EXPECT_NE(name_fault(std::string_view("a\0b", 3)), "");
}

TEST(FileNames, PathsOfAStore) {
  EXPECT_EQ(store_properties_path("/s"), "/s/store.properties");
  EXPECT_EQ(staging_path("/s"), "/s/staging");
  EXPECT_EQ(trash_path("/s"), "/s/trash");
  EXPECT_EQ(topics_path("/s"), "/s/topics");
  EXPECT_EQ(topic_path("/s", "t"), "/s/topics/t");
  EXPECT_EQ(topic_properties_path("/s/topics/t"), "/s/topics/t/topic.properties");
  EXPECT_EQ(partition_path("/s/topics/t", 12), "/s/topics/t/12");
  EXPECT_EQ(leader_epoch_checkpoint_path("p"), "p/leader-epoch-checkpoint");
  EXPECT_EQ(partition_metadata_path("p"), "p/partition.metadata");
  EXPECT_EQ(log_start_offset_path("p"), "p/log-start-offset");
  EXPECT_EQ(recovery_point_path("p"), "p/recovery-point");
  EXPECT_EQ(cuts_path("p"), "p/cuts");
  EXPECT_EQ(append_lock_path("p"), "p/append.lock");
}

}  // namespace partlog::format

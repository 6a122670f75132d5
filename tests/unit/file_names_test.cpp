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

TEST(FileNames, PathsOfAGroup) {
  EXPECT_EQ(groups_path("/s"), "/s/groups");
  const auto group = group_path("/s", "g");
  EXPECT_EQ(group, "/s/groups/g");
  EXPECT_EQ(group_lock_path(group), "/s/groups/g/group.lock");
  EXPECT_EQ(group_properties_path(group), "/s/groups/g/group.properties");
  EXPECT_EQ(members_path(group), "/s/groups/g/members");
  EXPECT_EQ(member_lock_path(group, "host.example-7-ab"), "/s/groups/g/members/host.example-7-ab.lock");
  EXPECT_EQ(offsets_path(group), "/s/groups/g/offsets");
  EXPECT_EQ(topic_offsets_path(group, "t"), "/s/groups/g/offsets/t");
  EXPECT_EQ(offset_file_path(group, "t", 12), "/s/groups/g/offsets/t/12");
  EXPECT_EQ(offset_lock_path(group, "t", 12), "/s/groups/g/offsets/t/12.lock");
  EXPECT_EQ(claims_path(group), "/s/groups/g/claims");
  EXPECT_EQ(topic_claims_path(group, "t"), "/s/groups/g/claims/t");
  EXPECT_EQ(claim_lock_path(group, "t", 12), "/s/groups/g/claims/t/12.lock");
}

TEST(FileNames, PartitionsAndNothingElse) {
  EXPECT_EQ(parse_partition_name("0"), 0);
  EXPECT_EQ(parse_partition_name("2147483647"), 2147483647);
  EXPECT_EQ(parse_partition_name("12.lock", lock_suffix), 12);
  for (const char* name : {"", "-1", "+1", "01", "1a", " 1", "1 ", "1.lock", "1.tmp", "2147483648", "99999999999999999999"}) {
    EXPECT_FALSE(parse_partition_name(name)) << name;
  }
  for (const char* name : {"1", ".lock", "01.lock", "1.lock~", "1.lock.lock", "1.LOCK"}) {
    EXPECT_FALSE(parse_partition_name(name, lock_suffix)) << name;
  }
}

TEST(FileNames, MemberFilesAndNothingElse) {
  EXPECT_EQ(parse_member_lock_name("host.example-7-ab.lock"), "host.example-7-ab");
  EXPECT_EQ(parse_member_lock_name("a.lock.lock"), "a.lock");
  for (const char* name : {"", ".lock", "..lock", "...lock", "host", "host.lock~", "a b.lock", "host.lock.swp"}) {
    EXPECT_FALSE(parse_member_lock_name(name)) << name;
  }
}

TEST(FileNames, NoOtherDirectoryInTrashHasTheSameName) {
  const auto name = unique_name("clicks");
  EXPECT_TRUE(name.starts_with("clicks.")) << name;
  EXPECT_NE(unique_name("clicks"), name);
  const auto longest = unique_name(std::string(249, 'x'));
  EXPECT_LE(longest.size(), 249u);
  EXPECT_EQ(name_fault(longest), "");
}

}  // namespace partlog::format

// SegmentFile over files that were changed on purpose: what it gives, what it says of the rest.
#include "partlog/segment_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "format/batch_header.h"
#include "format/record_batch.h"
#include "partlog/error.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;
using Step = SegmentFile::Step;

class SegmentFileTest : public ::testing::Test {
 protected:
  SegmentFileTest()
      : directory_(fs::temp_directory_path() /
                   ("partlog-segment-file-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
                    ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(directory_);
  }
  ~SegmentFileTest() override { fs::remove_all(directory_); }

  static std::string batch(std::int64_t offset, int count) {
    format::BatchBuilder builder;
    for (int i = 0; i < count; ++i) builder.add({{}, Bytes("value"), {}, Timestamp{1000 + i}, {}});
    const auto bytes = builder.finish();
    format::set_offset_and_epoch(bytes, Offset{offset}, 0);
    return {bytes.data(), bytes.size()};
  }

  SegmentFile open(const std::string& bytes, const std::string& name = "00000000000000000010.log") {
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
    return SegmentFile(directory_ / name);
  }

  // One letter a step: b batch, x batch with a finding, d damage, t torn tail.
  static std::string steps(SegmentFile& file) {
    std::string all;
    for (;;) {
      switch (file.next()) {
        case Step::batch:
          all += file.finding().reason.empty() ? 'b' : 'x';
          break;
        case Step::damage:
          all += 'd';
          break;
        case Step::torn_tail:
          all += 't';
          break;
        case Step::end:
          return all;
      }
    }
  }

  fs::path directory_;
};

TEST_F(SegmentFileTest, GivesBatchesAndTheirRecords) {
  auto file = open(batch(10, 2) + batch(12, 100));
  EXPECT_EQ(file.base_offset(), Offset{10});
  ASSERT_EQ(file.next(), Step::batch);
  EXPECT_EQ(file.batch().last_offset, Offset{11});
  ASSERT_EQ(file.next(), Step::batch);
  EXPECT_EQ(file.batch().count, 100);
  std::int64_t next = 12;
  for (auto some = file.records(); !some.empty(); some = file.records()) {
    for (const auto& record : some) EXPECT_EQ(record.offset.value, next++);
  }
  EXPECT_EQ(next, 112);
  EXPECT_TRUE(file.records_fault().empty());
  EXPECT_EQ(file.next(), Step::end);
  EXPECT_EQ(file.next(), Step::end);
}

TEST_F(SegmentFileTest, ABatchWithAWrongOffsetAccusesNoOther) {
  for (const std::int64_t wrong : {std::int64_t{1} << 40, std::int64_t{500}, std::int64_t{3}}) {
    auto file = open(batch(10, 2) + batch(wrong, 2) + batch(14, 2) + batch(16, 1));
    EXPECT_EQ(steps(file), "bxbb") << wrong;
  }
}

TEST_F(SegmentFileTest, GapsOfCompactionAreNoFault) {
  auto file = open(batch(12, 1) + batch(100, 2) + batch(102, 1));
  EXPECT_EQ(steps(file), "bbb");
}

TEST_F(SegmentFileTest, ABatchInsideARecordIsNoneOfTheFile) {
  const auto inner = batch(20, 1) + "and more";
  format::BatchBuilder builder;
  builder.add({{}, Bytes(std::string_view(inner)), {}, Timestamp{1}, {}});
  const auto bytes = builder.finish();
  format::set_offset_and_epoch(bytes, Offset{12}, 0);
  const std::string outer(bytes.data(), bytes.size());
  auto whole = open(batch(10, 2) + outer + batch(13, 1));
  EXPECT_EQ(steps(whole), "bbb");
  auto torn = open(batch(10, 2) + outer.substr(0, outer.size() - 1));
  EXPECT_EQ(steps(torn), "bt");
}

TEST_F(SegmentFileTest, DamageEndsWhereTheNextBatchBegins) {
  const auto first = batch(10, 2);
  auto file = open(first + "rubbish" + batch(12, 1));
  ASSERT_EQ(file.next(), Step::batch);
  ASSERT_EQ(file.next(), Step::damage);
  EXPECT_EQ(file.finding().position.value, static_cast<std::int64_t>(first.size()));
  EXPECT_EQ(file.finding().end.value, static_cast<std::int64_t>(first.size()) + 7);
  EXPECT_EQ(file.finding().expected, Offset{12});
  EXPECT_EQ(steps(file), "b");
}

TEST_F(SegmentFileTest, ATailIsTornOnlyWhereNoSegmentFollows) {
  const auto bytes = batch(10, 2) + std::string(1000, '\0');
  auto last = open(bytes);
  EXPECT_EQ(steps(last), "bt");
  open(batch(12, 1), "00000000000000000012.log");
  auto rolled = open(bytes);
  EXPECT_TRUE(rolled.has_successor());
  EXPECT_EQ(steps(rolled), "bd");
}

TEST_F(SegmentFileTest, GoesOnWhereItIsSent) {
  std::string bytes;
  std::vector<std::int64_t> positions;
  for (int i = 0; i < 50; ++i) {
    positions.push_back(static_cast<std::int64_t>(bytes.size()));
    bytes += batch(10 + 3 * i, 3);
  }
  auto file = open(bytes);
  file.seek_offset({10 + 3 * 20 + 1});
  ASSERT_EQ(file.next(), Step::batch);
  EXPECT_EQ(file.batch().position.value, positions[20]);
  EXPECT_TRUE(file.finding().reason.empty());
  file.seek_position({positions[30] - 1});
  ASSERT_EQ(file.next(), Step::batch);
  EXPECT_EQ(file.batch().position.value, positions[30]);
  file.seek_offset({100'000});
  EXPECT_EQ(file.next(), Step::end);
  file.seek({0});
  EXPECT_EQ(steps(file), std::string(50, 'b'));
}

TEST_F(SegmentFileTest, SequencesWrap) {
  BatchInfo info;
  EXPECT_EQ(info.sequence(5), -1);
  info.base_sequence = 0x7fffffff;
  EXPECT_EQ(info.sequence(0), 0x7fffffff);
  EXPECT_EQ(info.sequence(1), 0);
}

TEST_F(SegmentFileTest, NoFileIsAnError) { EXPECT_THROW(SegmentFile(directory_ / "none.log"), Error); }

}  // namespace
}  // namespace partlog::test

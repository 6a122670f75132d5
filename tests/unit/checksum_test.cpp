#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/murmur2.h"
#include "bytes_of.h"

namespace partlog {

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c({"123456789", 9}), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);    // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);  // RFC 3720, B.4
}

TEST(Crc32c, EqualsTheDefinitionAtEverySizeAndSplit) {
  auto random = test::random_source();
  for (std::size_t size = 0; size < 600; ++size) {
    const std::string bytes = test::random_bytes(random, size);
    ASSERT_EQ(crc32c(bytes), test::slow_crc32c(bytes)) << size;
    const std::size_t split = test::below(random, size + 1);
    const std::span<const char> all(bytes);
    ASSERT_EQ(crc32c_extend(crc32c(all.first(split)), all.subspan(split)), crc32c(all)) << size << " at " << split;
  }
}

TEST(Murmur2, EqualsKafkasJavaClient) {
  const auto hash = [](std::string_view s) { return static_cast<std::int32_t>(murmur2(s)); };
  EXPECT_EQ(hash("21"), -973932308);
  EXPECT_EQ(hash("foobar"), -790332482);
  EXPECT_EQ(hash("a-little-bit-long-string"), -985981536);
  EXPECT_EQ(hash("a-little-bit-longer-string"), -1486304829);
  EXPECT_EQ(hash("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"), -58897971);
  EXPECT_EQ(hash("abc"), 479470107);
}

TEST(Murmur2, PartitionIsThePositiveRemainder) {
  EXPECT_EQ(partition_of_key("21", 7), (-973932308 & 0x7fffffff) % 7);
  EXPECT_EQ(partition_of_key("abc", 1000), 107);
  EXPECT_EQ(partition_of_key("anything", 1), 0);
}

}  // namespace partlog

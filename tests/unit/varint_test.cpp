#include "base/varint.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/copy_bytes.h"
#include "bytes_of.h"

namespace partlog {
namespace {

std::string encoded(std::int64_t value) {
  char bytes[max_varint64_size];
  return {bytes, write_varint(bytes, value)};
}

// The value, if the varint is good and as long as the text.
template <class T>
std::optional<T> decoded(std::string_view bytes) {
  // In memory of exactly that size, so that a sanitizer sees a read behind the end.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  T value;
  const char* end = exact.data() + exact.size();
  const char* behind;
  if constexpr (sizeof(T) == 4) {
    behind = read_varint32(exact.data(), end, value);
  } else {
    behind = read_varint64(exact.data(), end, value);
  }
  if (behind == nullptr || behind != end) return std::nullopt;
  return value;
}

TEST(Varint, KnownBytes) {
  const std::pair<std::int64_t, const char*> known[] = {{0, "00"},
                                                        {-1, "01"},
                                                        {1, "02"},
                                                        {63, "7e"},
                                                        {-64, "7f"},
                                                        {64, "8001"},
                                                        {-65, "8101"},
                                                        {300, "d804"},
                                                        {8191, "fe7f"},
                                                        {-8192, "ff7f"},
                                                        {8192, "808001"},
                                                        {2147483647, "feffffff0f"},
                                                        {-2147483648, "ffffffff0f"},
                                                        {INT64_MAX, "feffffffffffffffff01"},
                                                        {INT64_MIN, "ffffffffffffffffff01"}};
  for (const auto& [value, hex] : known) {
    EXPECT_EQ(test::to_hex(encoded(value)), hex) << value;
    EXPECT_EQ(varint_size(value), std::string_view(hex).size() / 2) << value;
    EXPECT_EQ(decoded<std::int64_t>(test::from_hex(hex)), value);
    if (value == static_cast<std::int32_t>(value)) {
      EXPECT_EQ(decoded<std::int32_t>(test::from_hex(hex)), value);
    }
  }
}

TEST(Varint, EveryLengthComesBack) {
  for (int bits = 0; bits < 63; ++bits) {
    for (const std::int64_t near : {-2, -1, 0, 1, 2}) {
      for (const std::int64_t value : {(std::int64_t{1} << bits) + near, -(std::int64_t{1} << bits) + near}) {
        const std::string bytes = encoded(value);
        EXPECT_EQ(bytes.size(), varint_size(value));
        EXPECT_EQ(test::SlowReader(bytes).varint(), value);
        EXPECT_EQ(decoded<std::int64_t>(bytes), value);
        for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decoded<std::int64_t>(bytes.substr(0, size)));
      }
    }
  }
}

TEST(Varint, RefusesWhatIsCutOffTooLongOrOutOfRange) {
  for (const char* hex : {"", "80", "ffffffff", "ffffffff1f", "ffffffffff01", "808080808000", "8080808010"}) {
    EXPECT_FALSE(decoded<std::int32_t>(test::from_hex(hex))) << hex;
  }
  for (const char* hex : {"", "80", "ffffffffffffffffff", "ffffffffffffffffff02", "ffffffffffffffffffff01"}) {
    EXPECT_FALSE(decoded<std::int64_t>(test::from_hex(hex))) << hex;
  }
  EXPECT_EQ(decoded<std::int32_t>(test::from_hex("8200")), 1);  // longer than need be: Kafka takes it
  EXPECT_EQ(decoded<std::int32_t>(test::from_hex("8280808000")), 1);
}

TEST(CopyBytes, CopiesEverySizeAndNoMore) {
  for (std::size_t size = 0; size < 600; ++size) {
    std::vector<char> from(size);
    for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<char>(i * 31 + size);
    std::vector<char> to(size);
    copy_bytes(to.data(), from.data(), size);
    EXPECT_EQ(to, from) << size;
  }
}

}  // namespace
}  // namespace partlog

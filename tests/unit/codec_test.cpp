#include "format/codec.h"

#include <gtest/gtest.h>

#include "bytes_of.h"

namespace partlog::format {
namespace {

constexpr Compression codecs[] = {Compression::gzip, Compression::snappy, Compression::lz4, Compression::zstd};
constexpr std::size_t plenty = 64 << 20;

std::string compressed_pieces(Compression codec, const std::vector<std::span<const char>>& data, std::optional<int> level = {}) {
  RawBuffer out;
  out.grow(1);
  *out.data() = '>';
  const auto end = compress(codec, level, data, out, 1);
  EXPECT_EQ(*out.data(), '>');  // what was there stays
  return {out.data() + 1, out.data() + end};
}

std::string compressed(Compression codec, std::string_view data, std::optional<int> level = {}) {
  return compressed_pieces(codec, {data}, level);
}

// The data, or "fault: " and what is wrong.
std::string decompressed(Compression codec, std::string_view data, std::size_t limit = plenty) {
  const std::vector<char> exact(data.begin(), data.end());
  std::vector<char> out{'o', 'l', 'd'};
  const std::string fault = decompress(codec, exact, limit, out);
  EXPECT_LE(out.capacity(), 2 * limit + 32 * data.size() + 8192);
  return fault.empty() ? std::string(out.begin(), out.end()) : "fault: " + fault;
}

// Put together by hand from the formats' descriptions, with nothing compressed.
const std::string gzip_hello = test::from_hex(
    "1f8b0800000000000003"
    "010500faff"
    "68656c6c6f"
    "86a61036"
    "05000000");
const std::string raw_snappy_hello = test::from_hex("05 10 68656c6c6f");
const std::string xerial_header = test::from_hex(
    "82534e4150505900"
    "00000001"
    "00000001");
const std::string xerial_hello = xerial_header + test::from_hex("00000007") + raw_snappy_hello;
const std::string lz4_hello = test::from_hex(
    "04224d18"
    "6040"
    "82"
    "05000080"
    "68656c6c6f"
    "00000000");
const std::string zstd_hello = test::from_hex(
    "28b52ffd"
    "20"
    "05"
    "290000"
    "68656c6c6f");

std::string hello(Compression codec) {
  switch (codec) {
    case Compression::gzip:
      return gzip_hello;
    case Compression::snappy:
      return xerial_hello;
    case Compression::lz4:
      return lz4_hello;
    default:
      return zstd_hello;
  }
}

}  // namespace

TEST(Codec, ReadsWhatWasMadeByHand) {
  for (const Compression codec : codecs) EXPECT_EQ(decompressed(codec, hello(codec)), "hello") << codec_name(codec);
  EXPECT_EQ(decompressed(Compression::snappy, raw_snappy_hello), "hello");
}

TEST(Codec, ReadsSeveralMembersBlocksAndFrames) {
  EXPECT_EQ(decompressed(Compression::gzip, gzip_hello + gzip_hello), "hellohello");
  EXPECT_EQ(decompressed(Compression::zstd, zstd_hello + zstd_hello), "hellohello");
  EXPECT_EQ(decompressed(Compression::snappy, xerial_hello + xerial_hello), "hellohello");
  EXPECT_EQ(decompressed(Compression::snappy, xerial_hello + test::from_hex("00000007") + raw_snappy_hello), "hellohello");
  EXPECT_EQ(decompressed(Compression::snappy, xerial_header), "");
  EXPECT_EQ(decompressed(Compression::lz4, lz4_hello + lz4_hello), "fault: there are bytes behind the LZ4 frame");
}

TEST(Codec, PiecesAreOneText) {
  auto random = test::random_source();
  std::string data = test::random_bytes(random, 300'000);
  data.replace(100'000, 100'000, std::string(100'000, 'x'));
  for (const Compression codec : codecs) {
    for (const std::size_t size : {1u, 7u, 32767u, 32768u, 32769u, 65536u, 131072u, 299'999u}) {
      std::vector<std::span<const char>> pieces;
      // Many small ones take long: after some of them comes the rest.
      for (std::size_t at = 0; at < data.size();) {
        const auto length = pieces.size() < 100 ? std::min(size, data.size() - at) : data.size() - at;
        pieces.emplace_back(data.data() + at, length);
        at += length;
      }
      EXPECT_EQ(decompressed(codec, compressed_pieces(codec, pieces)), data) << codec_name(codec) << size;
    }
  }
}

TEST(Codec, ComesBackAtEverySizeAndLevel) {
  auto random = test::random_source();
  for (const Compression codec : codecs) {
    for (const std::size_t size : {0u, 1u, 4095u, 4096u, 32767u, 32768u, 32769u, 65536u, 65537u, 1000000u}) {
      std::string data = test::random_bytes(random, size);
      EXPECT_EQ(decompressed(codec, compressed(codec, data)), data) << codec_name(codec) << size;
      for (char& c : data) c = static_cast<char>('a' + (c & 3));
      EXPECT_EQ(decompressed(codec, compressed(codec, data)), data) << codec_name(codec) << size;
      EXPECT_EQ(decompressed(codec, compressed(codec, data), size), data) << "at the limit";
      if (size > 0) {
        EXPECT_EQ(decompressed(codec, compressed(codec, data), size - 1), "fault: decompressed data is over the limit");
      }
    }
    const auto levels = codec_levels(codec);
    if (!levels) continue;
    for (const int level : {levels->min, 1, 3, 9, 12, levels->max}) {
      if (level > levels->max) continue;
      const std::string data(100000, 'l');
      EXPECT_EQ(decompressed(codec, compressed(codec, data, level)), data) << codec_name(codec) << " level " << level;
    }
  }
}

TEST(Codec, WritesTheFramingsOfKafkasClient) {
  const std::string data(100000, 'd');
  EXPECT_EQ(test::to_hex(compressed(Compression::gzip, data).substr(0, 4)), "1f8b0800");
  EXPECT_EQ(test::to_hex(compressed(Compression::lz4, data).substr(0, 7)), "04224d18604082");  // 64 KiB, independent, no sums
  EXPECT_EQ(test::to_hex(compressed(Compression::zstd, data).substr(0, 4)), "28b52ffd");
  const std::string snappy = compressed(Compression::snappy, data);
  EXPECT_EQ(snappy.substr(0, 16), xerial_header);
  test::SlowReader in(std::string_view(snappy).substr(16));
  for (const char* size_varint : {"808002", "808002", "808002", "a09a"}) {  // 32768 three times; 1696 is a00d
    const std::string block = in.take(in.big_endian(4));
    if (std::string_view(size_varint) == "808002") {
      EXPECT_EQ(test::to_hex(block.substr(0, 3)), size_varint);
    } else {
      EXPECT_EQ(test::to_hex(block.substr(0, 2)), "a00d");
    }
  }
  EXPECT_TRUE(in.at_end());
}

TEST(Codec, EveryPrefixIsCutOff) {
  auto random = test::random_source();
  for (const Compression codec : codecs) {
    const std::string whole = compressed(codec, test::random_bytes(random, 300) + std::string(300, 'x'));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      if (codec == Compression::snappy && size == 16) continue;  // a header alone holds nothing
      EXPECT_TRUE(decompressed(codec, whole.substr(0, size)).starts_with("fault: ")) << codec_name(codec) << size;
    }
  }
  EXPECT_EQ(decompressed(Compression::gzip, gzip_hello.substr(0, 20)), "fault: gzip data is cut off");
  EXPECT_EQ(decompressed(Compression::snappy, xerial_hello.substr(0, 22)), "fault: snappy data is cut off");
  EXPECT_EQ(decompressed(Compression::lz4, lz4_hello.substr(0, 12)), "fault: LZ4 data is cut off");
  EXPECT_EQ(decompressed(Compression::zstd, zstd_hello.substr(0, 12)), "fault: zstd data is cut off");
  EXPECT_EQ(decompressed(Compression::zstd, ""), "fault: zstd data is cut off");
}

TEST(Codec, CorruptDataIsNamed) {
  EXPECT_EQ(decompressed(Compression::gzip, gzip_hello + "xx"), "fault: gzip data is corrupt");
  std::string wrong = gzip_hello;
  wrong[16] = 'H';  // its checksum does not fit now
  EXPECT_EQ(decompressed(Compression::gzip, wrong), "fault: gzip data is corrupt");
  EXPECT_EQ(decompressed(Compression::lz4, test::from_hex("04224d18"
                                                          "6040"
                                                          "83"
                                                          "00000000")),
            "fault: LZ4 data is corrupt");
  EXPECT_EQ(decompressed(Compression::zstd, "hello, world"), "fault: zstd data is corrupt");
  EXPECT_EQ(decompressed(Compression::snappy, xerial_header + test::from_hex("ffffffff")), "fault: snappy data is corrupt");
  EXPECT_EQ(decompressed(Compression::snappy, test::from_hex("82534e4150505900"
                                                             "00000000"
                                                             "00000001")),
            "fault: the snappy framing has an unknown version");
  // After a fault the thread's contexts are good again.
  for (const Compression codec : codecs) EXPECT_EQ(decompressed(codec, hello(codec)), "hello");
}

TEST(Codec, BombsAndFalseClaimsTakeNoMemory) {
  const std::string zeros(32 << 20, '\0');
  for (const Compression codec : codecs) {
    const std::string bomb = compressed(codec, zeros);
    EXPECT_EQ(decompressed(codec, bomb, 1 << 20), "fault: decompressed data is over the limit") << codec_name(codec);
  }
  // 4 GiB claimed by raw snappy, 2^40 and 2^63 bytes by a zstd frame, 2^40 by an LZ4 frame without its header checksum.
  EXPECT_EQ(decompressed(Compression::snappy, test::from_hex("ffffffff0f 10 68656c6c6f")), "fault: snappy data is corrupt");
  EXPECT_TRUE(decompressed(Compression::zstd, test::from_hex("28b52ffd e0 0000000000010000 290000 68656c6c6f"), 1 << 20)
                  .starts_with("fault: "));
  EXPECT_TRUE(decompressed(Compression::zstd, test::from_hex("28b52ffd e0 0000000000000080 290000 68656c6c6f"), 1 << 20)
                  .starts_with("fault: "));
}

TEST(Codec, HostileDataGivesAFaultOrSomeData) {
  auto random = test::random_source();
  for (const Compression codec : codecs) {
    const std::string whole = compressed(codec, test::random_bytes(random, 200) + std::string(5000, 'x'));
    std::size_t faults = 0;
    for (int i = 0; i < 3000; ++i) {
      const std::string result = decompressed(codec, test::damaged(random, whole), 1 << 20);
      faults += result.starts_with("fault: ");
      decompressed(codec, test::random_bytes(random, 1 + test::below(random, 100)), 1 << 20);
      // Whatever state the fault was found in, the thread's context is good again.
      ASSERT_EQ(decompressed(codec, hello(codec)), "hello") << codec_name(codec) << " after " << result;
    }
    EXPECT_GT(faults, 300u) << codec_name(codec);
  }
}

TEST(Codec, Names) {
  for (const char* name : {"none", "gzip", "snappy", "lz4", "zstd"}) {
    ASSERT_TRUE(codec_by_name(name));
    EXPECT_STREQ(codec_name(*codec_by_name(name)), name);
  }
  EXPECT_EQ(codec_by_name("zstd"), Compression::zstd);
  EXPECT_FALSE(codec_by_name("ZSTD"));
  EXPECT_FALSE(codec_by_name(""));
  EXPECT_FALSE(codec_levels(Compression::snappy));
  EXPECT_FALSE(codec_levels(Compression::none));
  EXPECT_EQ(codec_levels(Compression::gzip)->max, 9);
  EXPECT_EQ(codec_levels(Compression::zstd)->max, 22);
}

}  // namespace partlog::format

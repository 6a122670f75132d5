// Compression codecs of record batches, from their own libraries. Framings as Kafka's Java client writes and reads them: gzip
// members, snappy in xerial framing ("SNAPPY" blocks) written, xerial or raw read; LZ4 frames with the correct header checksum;
// zstd frames.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/raw_buffer.h"
#include "partlog/types.h"

namespace partlog::format {

// Bytes in pieces that follow one another.
using Pieces = std::span<const std::span<const char>>;

// Puts the compressed form of `data` behind the first `used` bytes of `out`; returns where it ends. Level nullopt: the codec's
// default. The codec must not be none.
std::size_t compress(Compression codec, std::optional<int> level, Pieces data, RawBuffer& out, std::size_t used);

// LZ4 in messages of format v0 has a frame header checksum that was computed over the wrong bytes; by newer clients it is right
// (KIP-57).
enum class Lz4HeaderChecksum { checked, ignored };

// Replaces `out` by the decompressed form. Returns an empty string, or what is wrong (corrupt input, output over `limit` bytes).
// Never allocates much more than `limit` plus the input, whatever the input claims.
std::string decompress(Compression codec, std::span<const char> data, std::size_t limit, std::vector<char>& out,
                       Lz4HeaderChecksum lz4 = Lz4HeaderChecksum::checked);

const char* codec_name(Compression codec);  // "none", "gzip", "snappy", "lz4", "zstd"
std::optional<Compression> codec_by_name(std::string_view name);
// The levels a codec takes, as Kafka's compression.gzip.level, compression.lz4.level and compression.zstd.level do; nullopt: it
// has none.
struct LevelRange {
  int min;
  int max;
};
std::optional<LevelRange> codec_levels(Compression codec);

}  // namespace partlog::format

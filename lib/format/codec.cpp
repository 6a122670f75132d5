#include "format/codec.h"

#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "base/byte_order.h"
#include "base/check.h"
#include "base/xxh32.h"
#include "partlog/error.h"

namespace partlog::format {

namespace {

constexpr const char* over_limit = "decompressed data is over the limit";

// Output of unknown size: a vector that grows whenever it is full, up to one byte more than the limit (the byte that proves that
// the limit is not enough). A large one must not be there twice while it is moved: memory for all it may come to is asked for,
// which is not taken before it is used.
class BoundedOutput {
 public:
  // `hint` is what the output may well come to; no promise, and never more than 32 times the input believed.
  BoundedOutput(std::vector<char>& out, std::size_t limit, std::size_t input, std::size_t hint)
      : out_(out), most_(std::min(limit, SIZE_MAX - 1) + 1) {
    constexpr std::size_t least = 4096;
    const std::size_t believable = std::max(least, 32 * input);
    const auto wanted = std::min(most_, std::clamp(hint, least, believable));
    if (wanted > out_.capacity()) std::vector<char>().swap(out_);  // nothing in it is wanted any more
    out_.resize(wanted);
  }

  char* at() { return out_.data() + used_; }
  std::size_t room() const { return out_.size() - used_; }
  std::size_t used() const { return used_; }
  void advance(std::size_t n) { used_ += n; }
  void grow_if_full() {
    if (room() > 0) return;
    constexpr std::size_t large = 8 << 20;
    const auto size = out_.size();
    const auto wanted = std::min(most_, size + std::min(size, large));
    if (size >= large && wanted > out_.capacity()) out_.reserve(most_);
    out_.resize(wanted);
  }
  bool over() const { return used_ == most_; }
  void finish() { out_.resize(used_); }

 private:
  std::vector<char>& out_;
  std::size_t most_;
  std::size_t used_ = 0;
};

// Contexts are costly to make: one of each kind per thread, made at its first use.
template <class Context, auto Destroy>
struct Destroyer {
  void operator()(Context* c) const { Destroy(c); }
};
template <class Context, auto Destroy>
using ContextHolder = std::unique_ptr<Context, Destroyer<Context, Destroy>>;

std::size_t size_of(Pieces pieces) {
  std::size_t size = 0;
  for (const auto& piece : pieces) size += piece.size();
  return size;
}

// --- gzip ---

constexpr int gzip_window_bits = 15 + 16;  // the largest window, gzip header and trailer

unsigned char* as_zlib(const char* p) { return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(p)); }

void destroy_deflate(z_stream* s) {
  deflateEnd(s);
  delete s;
}

void destroy_inflate(z_stream* s) {
  inflateEnd(s);
  delete s;
}

z_stream& deflate_stream(int level) {
  thread_local ContextHolder<z_stream, destroy_deflate> stream;
  thread_local int stream_level;
  if (stream != nullptr && stream_level == level) {
    PARTLOG_CHECK(deflateReset(stream.get()) == Z_OK);
    return *stream;
  }
  stream.reset();
  auto fresh = std::make_unique<z_stream>();
  constexpr int memory_level = 8;
  if (deflateInit2(fresh.get(), level, Z_DEFLATED, gzip_window_bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  stream.reset(fresh.release());
  stream_level = level;
  return *stream;
}

z_stream& inflate_stream() {
  thread_local ContextHolder<z_stream, destroy_inflate> stream;
  if (stream != nullptr) {
    PARTLOG_CHECK(inflateReset(stream.get()) == Z_OK);
    return *stream;
  }
  auto fresh = std::make_unique<z_stream>();
  if (inflateInit2(fresh.get(), gzip_window_bits) != Z_OK) throw std::bad_alloc();
  stream.reset(fresh.release());
  return *stream;
}

std::size_t compress_gzip(std::optional<int> level, Pieces data, RawBuffer& out, std::size_t used) {
  z_stream& stream = deflate_stream(level.value_or(Z_DEFAULT_COMPRESSION));
  const auto bound = deflateBound(&stream, size_of(data));
  out.grow(used + bound);
  stream.next_out = as_zlib(out.data() + used);
  stream.avail_out = static_cast<uInt>(bound);
  for (const auto& piece : data) {
    const bool last = &piece == &data.back();
    stream.next_in = as_zlib(piece.data());
    stream.avail_in = static_cast<uInt>(piece.size());
    const int status = deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
    PARTLOG_CHECK(status == (last ? Z_STREAM_END : Z_OK) && stream.avail_in == 0);
  }
  return used + stream.total_out;
}

const char* decompress_gzip(std::span<const char> data, BoundedOutput& out) {
  z_stream& stream = inflate_stream();
  stream.next_in = as_zlib(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  for (;;) {
    out.grow_if_full();
    const std::size_t room = std::min<std::size_t>(out.room(), 1u << 30);
    stream.next_out = as_zlib(out.at());
    stream.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream, Z_NO_FLUSH);
    out.advance(room - stream.avail_out);
    if (out.over()) return over_limit;
    if (status == Z_STREAM_END) {
      if (stream.avail_in == 0) return nullptr;
      inflateReset(&stream);  // another member follows
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return "gzip data is corrupt";
    } else if (stream.avail_in == 0 && stream.avail_out != 0) {
      return "gzip data is cut off";
    }
  }
}

// --- snappy: the framing of xerial's snappy-java, which Kafka's client writes, or one raw snappy block ---

constexpr std::string_view xerial_magic("\x82SNAPPY\0", 8);
constexpr std::size_t xerial_header_size = 8 + 4 + 4;  // magic, version, least compatible version
constexpr std::size_t xerial_block_size = 32 << 10;    // uncompressed

bool starts_with_xerial_magic(std::span<const char> data) {
  return std::string_view(data.data(), data.size()).starts_with(xerial_magic);
}

// Cuts pieces into blocks. What reaches over the end of a piece is put together in a place of its own.
class Blocks {
 public:
  explicit Blocks(Pieces pieces) : pieces_(pieces) {}

  // Empty at the end, and only there; valid until the next call.
  std::span<const char> next() {
    while (!pieces_.empty() && at_ == pieces_.front().size()) next_piece();
    if (pieces_.empty()) return {};
    const auto rest = pieces_.front().subspan(at_);
    if (rest.size() >= xerial_block_size || pieces_.size() == 1) return take(xerial_block_size);
    together_.clear();
    while (!pieces_.empty() && together_.size() < xerial_block_size) {
      const auto part = take(xerial_block_size - together_.size());
      together_.insert(together_.end(), part.begin(), part.end());
      if (at_ == pieces_.front().size()) next_piece();
    }
    return together_;
  }

 private:
  void next_piece() {
    pieces_ = pieces_.subspan(1);
    at_ = 0;
  }
  std::span<const char> take(std::size_t most) {
    const auto rest = pieces_.front().subspan(at_);
    const auto taken = rest.first(std::min(most, rest.size()));
    at_ += taken.size();
    return taken;
  }

  Pieces pieces_;
  std::size_t at_ = 0;  // in the first piece
  std::vector<char> together_;
};

std::size_t compress_snappy(Pieces data, RawBuffer& out, std::size_t used) {
  const std::size_t blocks = (size_of(data) + xerial_block_size - 1) / xerial_block_size;
  out.grow(used + xerial_header_size + blocks * (4 + snappy::MaxCompressedLength(xerial_block_size)));
  char* const start = out.data() + used;
  std::memcpy(start, xerial_magic.data(), xerial_magic.size());
  store_big_endian(start + 8, std::int32_t{1});
  store_big_endian(start + 12, std::int32_t{1});
  char* to = start + xerial_header_size;
  Blocks cut(data);
  for (auto block = cut.next(); !block.empty(); block = cut.next()) {
    std::size_t size;
    snappy::RawCompress(block.data(), block.size(), to + 4, &size);
    store_big_endian(to, static_cast<std::int32_t>(size));
    to += 4 + size;
  }
  return static_cast<std::size_t>(to - out.data());
}

// One block appended to `out`. A copy of three bytes yields 64 at most: more than 22 times the input is a lie.
const char* decompress_snappy_block(std::span<const char> block, std::size_t limit, std::vector<char>& out) {
  std::size_t size;
  if (!snappy::GetUncompressedLength(block.data(), block.size(), &size)) return "snappy data is corrupt";
  if (size / 22 > block.size()) return "snappy data is corrupt";
  if (size > limit - out.size()) return over_limit;
  const std::size_t before = out.size();
  out.resize(before + size);
  return snappy::RawUncompress(block.data(), block.size(), out.data() + before) ? nullptr : "snappy data is corrupt";
}

const char* decompress_snappy(std::span<const char> data, std::size_t limit, std::vector<char>& out) {
  out.clear();
  if (!starts_with_xerial_magic(data)) return decompress_snappy_block(data, limit, out);
  while (!data.empty()) {
    if (starts_with_xerial_magic(data)) {  // also in the middle, where streams were strung together
      if (data.size() < xerial_header_size) return "snappy data is cut off";
      if (load_big_endian<std::int32_t>(data.data() + 8) < 1) return "the snappy framing has an unknown version";
      data = data.subspan(xerial_header_size);
      continue;
    }
    if (data.size() < 4) return "snappy data is cut off";
    const auto size = load_big_endian<std::int32_t>(data.data());
    data = data.subspan(4);
    if (size < 0) return "snappy data is corrupt";
    if (static_cast<std::size_t>(size) > data.size()) return "snappy data is cut off";
    if (const char* fault = decompress_snappy_block(data.first(static_cast<std::size_t>(size)), limit, out)) return fault;
    data = data.subspan(static_cast<std::size_t>(size));
  }
  return nullptr;
}

// --- LZ4 frames ---

LZ4F_cctx& lz4_compressor() {
  thread_local ContextHolder<LZ4F_cctx, LZ4F_freeCompressionContext> context;
  LZ4F_cctx* fresh = nullptr;
  if (context == nullptr && LZ4F_isError(LZ4F_createCompressionContext(&fresh, LZ4F_VERSION))) throw std::bad_alloc();
  if (fresh != nullptr) context.reset(fresh);
  return *context;
}

std::size_t compress_lz4(std::optional<int> level, Pieces data, RawBuffer& out, std::size_t used) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.blockSizeID = LZ4F_max64KB;
  preferences.frameInfo.blockMode = LZ4F_blockIndependent;
  preferences.compressionLevel = level.value_or(0);
  preferences.autoFlush = 1;  // each piece ends with a block: nothing is kept back
  std::size_t bound = LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(0, &preferences);
  for (const auto& piece : data) bound += LZ4F_compressBound(piece.size(), &preferences);
  out.grow(used + bound);
  LZ4F_cctx& context = lz4_compressor();
  const std::size_t end = used + bound;
  const auto advance = [&used](std::size_t size) {
    PARTLOG_CHECK(!LZ4F_isError(size));
    used += size;
  };
  advance(LZ4F_compressBegin(&context, out.data() + used, end - used, &preferences));
  for (const auto& piece : data)
    advance(LZ4F_compressUpdate(&context, out.data() + used, end - used, piece.data(), piece.size(), nullptr));
  advance(LZ4F_compressEnd(&context, out.data() + used, end - used, nullptr));
  return used;
}

// A context that has ended a frame can begin another; one that was left in the midst of one, by a fault, is not used again.
class Lz4Context {
 public:
  Lz4Context() : context_(std::move(kept())) {
    LZ4F_dctx* fresh = nullptr;
    if (context_ != nullptr) return;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&fresh, LZ4F_VERSION))) throw std::bad_alloc();
    context_.reset(fresh);
  }
  LZ4F_dctx* get() const { return context_.get(); }
  void keep() { kept() = std::move(context_); }

 private:
  using Holder = ContextHolder<LZ4F_dctx, LZ4F_freeDecompressionContext>;
  static Holder& kept() {
    thread_local Holder context;
    return context;
  }
  Holder context_;
};

// The header of an LZ4 frame with the checksum that belongs there; empty if `data` does not begin with a whole header.
std::string corrected_lz4_header(std::span<const char> data) {
  constexpr std::size_t flags_at = 4;  // behind the magic number
  constexpr std::size_t least = flags_at + 3;
  constexpr int has_content_size = 8;
  constexpr int has_dictionary = 1;
  if (data.size() < least) return {};
  const auto flags = static_cast<unsigned char>(data[flags_at]);
  const auto size = least + ((flags & has_content_size) != 0 ? 8 : 0) + ((flags & has_dictionary) != 0 ? 4 : 0);
  if (data.size() < size) return {};
  std::string header(data.data(), size);
  header.back() = static_cast<char>(xxh32({header.data() + flags_at, size - 1 - flags_at}) >> 8);
  return header;
}

const char* decompress_lz4(std::span<const char> data, BoundedOutput& out, Lz4HeaderChecksum checksum) {
  Lz4Context context;
  if (checksum == Lz4HeaderChecksum::ignored) {
    const auto header = corrected_lz4_header(data);
    std::size_t read = header.size();
    std::size_t written = 0;
    if (LZ4F_isError(LZ4F_decompress(context.get(), out.at(), &written, header.data(), &read, nullptr)) || read != header.size())
      return "LZ4 data is corrupt";
    data = data.subspan(read);
  }
  for (;;) {
    out.grow_if_full();
    std::size_t written = out.room();
    std::size_t read = data.size();
    const std::size_t status = LZ4F_decompress(context.get(), out.at(), &written, data.data(), &read, nullptr);
    if (LZ4F_isError(status)) return "LZ4 data is corrupt";
    out.advance(written);
    data = data.subspan(read);
    if (out.over()) return over_limit;
    if (status == 0) {
      context.keep();
      return data.empty() ? nullptr : "there are bytes behind the LZ4 frame";
    }
    if (data.empty() && out.room() != 0) return "LZ4 data is cut off";
  }
}

// --- zstd ---

ZSTD_CCtx& zstd_compressor() {
  thread_local ContextHolder<ZSTD_CCtx, ZSTD_freeCCtx> context;
  if (context == nullptr) context.reset(ZSTD_createCCtx());
  if (context == nullptr) throw std::bad_alloc();
  return *context;
}

std::size_t compress_zstd(std::optional<int> level, Pieces data, RawBuffer& out, std::size_t used) {
  ZSTD_CCtx& context = zstd_compressor();
  const auto total = size_of(data);
  const std::size_t bound = ZSTD_compressBound(total);
  out.grow(used + bound);
  ZSTD_CCtx_reset(&context, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(&context, ZSTD_c_compressionLevel, level.value_or(ZSTD_CLEVEL_DEFAULT));
  char* const to = out.data() + used;
  if (data.size() == 1) {  // which needs no buffers of its own
    const std::size_t size = ZSTD_compress2(&context, to, bound, data[0].data(), total);
    PARTLOG_CHECK(!ZSTD_isError(size));
    return used + size;
  }
  ZSTD_CCtx_setPledgedSrcSize(&context, total);
  ZSTD_outBuffer packed{to, bound, 0};
  for (const auto& piece : data) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    const auto end = &piece == &data.back() ? ZSTD_e_end : ZSTD_e_continue;
    std::size_t left;
    do {
      left = ZSTD_compressStream2(&context, &packed, &in, end);
      PARTLOG_CHECK(!ZSTD_isError(left));
    } while (in.pos < in.size || (end == ZSTD_e_end && left != 0));
  }
  return used + packed.pos;
}

using ZstdDecompressor = ContextHolder<ZSTD_DCtx, ZSTD_freeDCtx>;

const char* decompress_zstd_stream(ZSTD_DCtx& context, std::span<const char> data, BoundedOutput& out) {
  ZSTD_inBuffer in{data.data(), data.size(), 0};
  for (;;) {
    out.grow_if_full();
    ZSTD_outBuffer to{out.at(), out.room(), 0};
    const std::size_t status = ZSTD_decompressStream(&context, &to, &in);
    if (ZSTD_isError(status)) return "zstd data is corrupt";
    out.advance(to.pos);
    if (out.over()) return over_limit;
    if (status == 0 && in.pos == in.size) return nullptr;  // else another frame follows
    if (status != 0 && in.pos == in.size && out.room() != 0) return "zstd data is cut off";
  }
}

const char* decompress_zstd(std::span<const char> data, BoundedOutput& out) {
  thread_local ZstdDecompressor context;
  constexpr std::size_t worth_keeping = 16 << 20;  // its window: a hostile frame may ask for 128 MiB
  if (context == nullptr) context.reset(ZSTD_createDCtx());
  if (context == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_reset(context.get(), ZSTD_reset_session_only);
  const char* const fault = decompress_zstd_stream(*context, data, out);
  if (ZSTD_sizeof_DCtx(context.get()) > worth_keeping) context.reset();
  return fault;
}

// What a zstd frame says about its size, 0 if nothing; a hint, no more.
std::size_t zstd_size_hint(std::span<const char> data) {
  const unsigned long long size = ZSTD_getFrameContentSize(data.data(), data.size());
  return size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ? 0 : static_cast<std::size_t>(size);
}

const char* decompress_any(Compression codec, std::span<const char> data, std::size_t limit, std::vector<char>& out,
                           Lz4HeaderChecksum lz4) {
  if (codec == Compression::snappy) return decompress_snappy(data, limit, out);
  const std::size_t hint = codec == Compression::zstd ? zstd_size_hint(data) : 4 * data.size();
  BoundedOutput output(out, limit, data.size(), hint);
  const char* const fault = codec == Compression::gzip  ? decompress_gzip(data, output)
                            : codec == Compression::lz4 ? decompress_lz4(data, output, lz4)
                                                        : decompress_zstd(data, output);
  output.finish();
  return fault;
}

constexpr std::array<const char*, 5> names = {"none", "gzip", "snappy", "lz4", "zstd"};
constexpr std::size_t max_data_size = 0x7fffffff;

}  // namespace

std::size_t compress(Compression codec, std::optional<int> level, Pieces data, RawBuffer& out, std::size_t used) {
  PARTLOG_CHECK(!data.empty() && size_of(data) <= max_data_size);
  switch (codec) {
    case Compression::gzip:
      return compress_gzip(level, data, out, used);
    case Compression::snappy:
      return compress_snappy(data, out, used);
    case Compression::lz4:
      return compress_lz4(level, data, out, used);
    default:
      PARTLOG_CHECK(codec == Compression::zstd);
      return compress_zstd(level, data, out, used);
  }
}

std::string decompress(Compression codec, std::span<const char> data, std::size_t limit, std::vector<char>& out,
                       Lz4HeaderChecksum lz4) {
  PARTLOG_CHECK(codec > Compression::none && codec <= Compression::zstd && data.size() <= max_data_size);
  if (data.empty()) return std::string(codec_name(codec)) + " data is cut off";
  const char* const fault = decompress_any(codec, data, limit, out, lz4);
  return fault == nullptr ? std::string() : std::string(fault);
}

const char* codec_name(Compression codec) {
  const auto index = static_cast<std::size_t>(codec);
  return index < names.size() ? names[index] : "unknown";
}

std::optional<Compression> codec_by_name(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Compression>(i);
  }
  return std::nullopt;
}

std::optional<LevelRange> codec_levels(Compression codec) {
  switch (codec) {
    case Compression::gzip:
      return LevelRange{Z_BEST_SPEED, Z_BEST_COMPRESSION};
    case Compression::lz4:
      return LevelRange{1, 17};
    case Compression::zstd:
      return LevelRange{ZSTD_minCLevel(), ZSTD_maxCLevel()};
    default:
      return std::nullopt;
  }
}

}  // namespace partlog::format

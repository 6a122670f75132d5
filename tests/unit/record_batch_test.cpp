#include "format/record_batch.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "base/crc32c.h"
#include "base/varint.h"
#include "bytes_of.h"

namespace partlog::format {
namespace {

// A record with its bytes; nullopt: null.
struct Owned {
  std::int64_t offset;
  std::int64_t timestamp;
  std::optional<std::string> key;
  std::optional<std::string> value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  friend bool operator==(const Owned&, const Owned&) = default;
};

Bytes bytes(const std::optional<std::string>& s) { return s ? Bytes(*s) : Bytes(); }

std::optional<std::string> owned(Bytes b) { return b.is_null() ? std::nullopt : std::optional<std::string>(b.view()); }

Owned owned(const Record& r) {
  Owned o{r.offset.value, r.timestamp.value, owned(r.key), owned(r.value), {}};
  HeaderCursor cursor(r.headers);
  for (Header h; cursor.next(h);) o.headers.emplace_back(h.name, owned(h.value));
  return o;
}

void add_headers(HeaderBuilder& builder, const Owned& o) {
  builder.clear();
  for (const auto& [name, value] : o.headers) builder.add(name, bytes(value));
}

// Adds them one by one, holding size_of() and size() against each other.
void add_all(BatchBuilder& builder, const std::vector<Owned>& records) {
  HeaderBuilder headers;
  for (const Owned& o : records) {
    add_headers(headers, o);
    Record r;
    r.key = bytes(o.key);
    r.value = bytes(o.value);
    r.headers = headers.block();
    r.timestamp = Timestamp{o.timestamp};
    const std::size_t expected = builder.size() + builder.size_of(r);
    EXPECT_FALSE(builder.add_within(r, expected - 1));
    if (builder.count() % 2 == 0) {
      builder.add(r);
    } else {
      EXPECT_TRUE(builder.add_within(r, expected));
    }
    ASSERT_EQ(builder.size(), expected);
  }
}

std::optional<std::string> slow_bytes(test::SlowReader& in) {
  const std::int64_t size = in.varint();
  return size < 0 ? std::nullopt : std::optional<std::string>(in.take(size));
}

// The records of an uncompressed batch with base offset 0, by the documentation alone.
std::vector<Owned> slowly_decoded(std::string_view batch) {
  test::SlowReader in(batch);
  EXPECT_EQ(in.big_endian(8), 0);                                             // base offset
  EXPECT_EQ(in.big_endian(4), static_cast<std::int64_t>(batch.size()) - 12);  // batch length
  EXPECT_EQ(in.big_endian(4), 0);                                             // leader epoch
  EXPECT_EQ(in.byte(), 2);                                                    // magic
  EXPECT_EQ(static_cast<std::uint32_t>(in.big_endian(4)), test::slow_crc32c(batch.substr(21)));
  EXPECT_EQ(in.big_endian(2), 0);  // attributes
  const std::int64_t last_offset_delta = in.big_endian(4);
  const std::int64_t base_timestamp = in.big_endian(8);
  const std::int64_t max_timestamp = in.big_endian(8);
  EXPECT_EQ(in.big_endian(8), -1);  // producer id
  EXPECT_EQ(in.big_endian(2), -1);  // producer epoch
  EXPECT_EQ(in.big_endian(4), -1);  // base sequence
  const std::int64_t count = in.big_endian(4);
  EXPECT_EQ(last_offset_delta, count - 1);

  std::vector<Owned> records;
  std::int64_t largest = INT64_MIN;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t length = in.varint();
    const std::size_t start = in.at();
    EXPECT_EQ(in.byte(), 0);
    Owned o;
    o.timestamp = static_cast<std::int64_t>(static_cast<std::uint64_t>(base_timestamp) + static_cast<std::uint64_t>(in.varint()));
    o.offset = in.varint();
    EXPECT_EQ(o.offset, i);
    o.key = slow_bytes(in);
    o.value = slow_bytes(in);
    for (std::int64_t left = in.varint(); left > 0; --left) {
      const std::string name = *slow_bytes(in);
      o.headers.emplace_back(name, slow_bytes(in));
    }
    EXPECT_EQ(in.at() - start, static_cast<std::size_t>(length));
    largest = std::max(largest, o.timestamp);
    records.push_back(std::move(o));
  }
  EXPECT_TRUE(in.at_end());
  EXPECT_EQ(max_timestamp, largest);
  EXPECT_EQ(base_timestamp, records.front().timestamp);
  return records;
}

std::string text(std::span<const char> s) { return {s.data(), s.size()}; }

struct Decoded {
  std::vector<Owned> records;
  std::string fault;
  std::int64_t fault_offset;
};

Decoded decoded(std::string_view batch, std::size_t at_a_time = 3, std::size_t limit = default_decompression_limit) {
  const std::vector<char> exact(batch.begin(), batch.end());  // so that a sanitizer sees a read behind the end
  RecordDecoder decoder;
  decoder.start(read_batch_header(exact), exact, limit);
  Decoded result;
  std::vector<Record> some(at_a_time);
  while (const std::size_t n = decoder.decode(some)) {
    for (std::size_t i = 0; i < n; ++i) result.records.push_back(owned(some[i]));
  }
  EXPECT_EQ(decoder.decode(some), 0u);
  result.fault = decoder.fault();
  result.fault_offset = decoder.fault_offset().value;
  return result;
}

// A batch around a records block, made by hand.
std::string batch_of(std::string_view records, std::int32_t count, std::int32_t last_offset_delta, std::int16_t attributes = 0,
                     std::int64_t base_offset = 100, std::int64_t base_timestamp = 1000, std::int64_t max_timestamp = 5000) {
  std::string s;
  const auto put = [&s](std::int64_t v, int size) {
    for (int i = size - 1; i >= 0; --i) s += static_cast<char>(v >> (8 * i));
  };
  put(attributes, 2);
  put(last_offset_delta, 4);
  put(base_timestamp, 8);
  put(max_timestamp, 8);
  put(-1, 8);
  put(-1, 2);
  put(-1, 4);
  put(count, 4);
  s += records;
  const std::string checked = s;
  s.clear();
  put(base_offset, 8);
  put(static_cast<std::int64_t>(checked.size()) + 9, 4);
  put(7, 4);
  put(2, 1);
  put(test::slow_crc32c(checked), 4);
  return s + checked;
}

Owned random_record(std::mt19937_64& random) {
  const auto size = [&] {
    constexpr std::size_t ends[] = {1, 4, 40, 70, 200, 300, 9000};
    return test::below(random, ends[test::below(random, std::size(ends))]);
  };
  const auto maybe = [&]() -> std::optional<std::string> {
    if (test::below(random, 4) == 0) return std::nullopt;
    return test::random_bytes(random, size());
  };
  Owned o{0, 1700000000000 + static_cast<std::int64_t>(test::below(random, 20000)) - 10000, maybe(), maybe(), {}};
  if (test::below(random, 50) == 0) o.timestamp = static_cast<std::int64_t>(random());
  if (test::below(random, 3) == 0) {
    for (std::size_t i = test::below(random, 5); i > 0; --i)
      o.headers.emplace_back(test::random_bytes(random, size() % 90), maybe());
  }
  return o;
}

std::vector<Owned> random_records(std::mt19937_64& random, std::size_t count) {
  std::vector<Owned> records;
  for (std::size_t i = 0; i < count; ++i) {
    records.push_back(random_record(random));
    records.back().offset = static_cast<std::int64_t>(i);
  }
  return records;
}

}  // namespace

TEST(BatchBuilder, BytesOfASmallBatch) {
  BatchBuilder builder;
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.size(), 61u);
  add_all(builder, {{0, 1000, std::nullopt, "hi", {}}, {1, 999, "k", std::nullopt, {{"h", "v"}}}});
  EXPECT_EQ(builder.count(), 2);
  EXPECT_EQ(builder.max_timestamp(), Timestamp{1000});
  const std::string batch = text(builder.finish());
  EXPECT_EQ(test::to_hex(batch.substr(0, 17)),
            "0000000000000000"
            "00000046"
            "00000000"
            "02");
  EXPECT_EQ(static_cast<std::uint32_t>(test::SlowReader(std::string_view(batch).substr(17)).big_endian(4)),
            test::slow_crc32c(std::string_view(batch).substr(21)));
  EXPECT_EQ(test::to_hex(batch.substr(21)),
            "0000"
            "00000001"
            "00000000000003e8"
            "00000000000003e8"
            "ffffffffffffffff"
            "ffff"
            "ffffffff"
            "00000002"
            "10"
            "00"
            "00"
            "00"
            "01"
            "04"
            "6869"
            "00"
            "16"
            "00"
            "01"
            "02"
            "02"
            "6b"
            "01"
            "02"
            "02"
            "68"
            "02"
            "76");
}

TEST(BatchBuilder, EveryFieldAgainstAnIndependentReader) {
  auto random = test::random_source();
  BatchBuilder builder;
  for (int round = 0; round < 60; ++round) {
    const auto records = random_records(random, 1 + test::below(random, round == 0 ? 9000 : 200));
    builder.clear();
    add_all(builder, records);
    const std::string batch = text(builder.finish());
    EXPECT_EQ(batch.size(), builder.size());
    ASSERT_EQ(slowly_decoded(batch), records);
    const BatchHeader header = read_batch_header(batch);
    EXPECT_EQ(header_fault(header), nullptr);
    EXPECT_TRUE(checksum_matches(header, batch));
    const Decoded again = decoded(batch, 1 + test::below(random, 64));
    EXPECT_EQ(again.fault, "");
    ASSERT_EQ(again.records, records);
    if (round % 10 == 9) builder.release();
  }
}

TEST(BatchBuilder, SizesAroundEachVarintBoundary) {
  BatchBuilder builder;
  for (std::size_t size = 0; size < 9000; size += size < 400 || (size > 8000 && size < 8300) ? 1 : 97) {
    builder.clear();
    add_all(builder, {{0, 5, std::nullopt, std::string(size, 'v'), {}}, {1, 5, std::string(size, 'k'), "", {}}});
    ASSERT_EQ(slowly_decoded(text(builder.finish())).size(), 2u) << size;
  }
  builder.clear();
  add_all(builder, {{0, 5, std::string(3 << 20, 'k'), std::string(2 << 20, 'v'), {}}});
  EXPECT_EQ(slowly_decoded(text(builder.finish()))[0].key, std::string(3 << 20, 'k'));
}

TEST(BatchBuilder, FinishKeepsTheRecords) {
  BatchBuilder builder;
  add_all(builder, {{0, 7, "a", "b", {}}});
  std::span<char> batch = builder.finish();
  const std::string first = text(batch);
  set_offset_and_epoch(batch, Offset{99}, 3);
  set_log_append_time(batch, Timestamp{12});
  EXPECT_EQ(text(builder.finish()), first);
  add_all(builder, {{1, 8, "c", "d", {}}});
  EXPECT_EQ(slowly_decoded(text(builder.finish())).size(), 2u);
}

TEST(BatchBuilder, CompressedBatchesComeBack) {
  auto random = test::random_source();
  for (const Compression codec : {Compression::gzip, Compression::snappy, Compression::lz4, Compression::zstd}) {
    BatchBuilder builder({codec, {}});
    for (int round = 0; round < 5; ++round) {
      auto records = random_records(random, 1 + test::below(random, 300));
      for (Owned& o : records) o.value = std::string(o.value ? o.value->size() : 0, 'x');
      builder.clear();
      add_all(builder, records);
      const std::string batch = text(builder.finish());
      const BatchHeader header = read_batch_header(batch);
      EXPECT_EQ(header.compression(), codec);
      EXPECT_EQ(header.size(), static_cast<std::int64_t>(batch.size()));
      EXPECT_EQ(header_fault(header), nullptr);
      EXPECT_TRUE(checksum_matches(header, batch));
      const Decoded again = decoded(batch);
      EXPECT_EQ(again.fault, "");
      ASSERT_EQ(again.records, records);
    }
  }
}

std::string joined(const BatchBytes& batch) {
  std::string all = text(batch.front);
  for (const auto& piece : batch.rest) all.append(piece.data(), piece.size());
  EXPECT_EQ(all.size(), batch.size());
  return all;
}

TEST(BatchBuilder, WhatIsNotCopiedMakesTheSameBatch) {
  const std::string small(1000, 's'), large(3 << 20, 'l');
  HeaderBuilder headers;
  for (int large_parts = 0; large_parts < 8; ++large_parts) {
    const auto part = [&](int bit) { return Bytes((large_parts & bit) != 0 ? large : small); };
    headers.clear();
    headers.add("name", part(4));
    Record record;
    record.key = part(1);
    record.value = part(2);
    record.headers = headers.block();
    record.timestamp = Timestamp{5};
    for (const auto codec : {Compression::none, Compression::gzip, Compression::snappy, Compression::lz4, Compression::zstd}) {
      BatchBuilder copying({codec, {}}), referring({codec, {}});
      copying.add(record);
      referring.add_only(record);
      EXPECT_EQ(referring.size(), copying.size());
      const auto batch = referring.finish_in_pieces();
      EXPECT_EQ(decoded(joined(batch)).records, decoded(text(copying.finish())).records);
      EXPECT_TRUE(checksum_matches(read_batch_header(joined(batch)), joined(batch)));
      if (codec != Compression::none) continue;
      EXPECT_EQ(joined(batch), text(copying.finish()));
      EXPECT_EQ(batch.rest.empty(), large_parts == 0);
      set_log_append_time(batch, Timestamp{777});
      EXPECT_TRUE(checksum_matches(read_batch_header(joined(batch)), joined(batch)));
      referring.clear();
      referring.add(record);
      EXPECT_EQ(text(referring.finish()), text(copying.finish())) << "nothing is left of the one before";
    }
  }
}

TEST(BatchBuilder, CompressionThatMakesABatchTooLargeIsLeftOut) {
  auto random = test::random_source();
  BatchBuilder builder({Compression::gzip, {}});
  const std::vector<Owned> records{{0, 5, std::nullopt, test::random_bytes(random, 1000), {}}};
  add_all(builder, records);
  EXPECT_GT(builder.finish().size(), builder.size());
  const std::string batch = text(builder.finish(builder.size()));
  EXPECT_EQ(batch.size(), builder.size());
  EXPECT_EQ(slowly_decoded(batch), records);
  EXPECT_EQ(read_batch_header(builder.finish(builder.size() - 1)).compression(), Compression::gzip);  // helps nothing
}

TEST(BatchHeader, FieldsAndPatches) {
  std::string batch = batch_of("", 0, 4, 0x7b, 0x0102030405060708, -1, 77);
  const BatchHeader h = read_batch_header(batch);
  EXPECT_EQ(h.base_offset, Offset{0x0102030405060708});
  EXPECT_EQ(h.size(), 61);
  EXPECT_EQ(h.leader_epoch, 7);
  EXPECT_EQ(h.last_offset(), Offset{0x010203040506070c});
  EXPECT_EQ(h.base_timestamp, Timestamp{-1});
  EXPECT_EQ(h.max_timestamp, Timestamp{77});
  EXPECT_EQ(h.compression(), Compression{3});
  EXPECT_EQ(h.timestamp_type(), TimestampType::log_append_time);
  EXPECT_TRUE(h.is_transactional() && h.is_control() && h.has_delete_horizon());
  EXPECT_TRUE(checksum_matches(h, batch));

  set_offset_and_epoch(std::span(batch), Offset{5}, 9);
  EXPECT_EQ(test::to_hex(batch.substr(0, 16)),
            "000000000000000500000031"
            "00000009");
  EXPECT_TRUE(checksum_matches(read_batch_header(batch), batch));
}

TEST(BatchHeader, LogAppendTimeStampsAllRecords) {
  BatchBuilder builder;
  add_all(builder, {{0, 1000, "a", "1", {}}, {1, 2000, "b", "2", {}}});
  std::string batch = text(builder.finish());
  set_log_append_time(std::span(batch), Timestamp{777});
  const BatchHeader h = read_batch_header(batch);
  EXPECT_TRUE(checksum_matches(h, batch));
  EXPECT_EQ(h.attributes, 8);
  EXPECT_EQ(h.base_timestamp, Timestamp{1000});
  const auto records = decoded(batch).records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].timestamp, 777);
  EXPECT_EQ(records[1].timestamp, 777);
}

TEST(BatchHeader, EveryFlippedBitBehindTheChecksumIsFound) {
  BatchBuilder builder;
  add_all(builder, {{0, 1000, "a", "1", {{"h", "v"}}}});
  const std::string good = text(builder.finish());
  for (std::size_t i = 17 * 8; i < good.size() * 8; ++i) {
    std::string batch = good;
    batch[i / 8] = static_cast<char>(batch[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(checksum_matches(read_batch_header(batch), batch)) << "bit " << i;
  }
}

TEST(BatchHeader, Faults) {
  BatchHeader good;
  good.batch_length = 49 + 70;
  good.last_offset_delta = 9;
  good.record_count = 10;
  EXPECT_EQ(header_fault(good), nullptr);
  const auto fault = [&](auto change) {
    BatchHeader h = good;
    change(h);
    const char* f = header_fault(h);
    return std::string(f == nullptr ? "" : f);
  };
  EXPECT_EQ(fault([](auto& h) { h.magic = 3; }), "the message format is unknown");
  EXPECT_EQ(fault([](auto& h) { h.batch_length = 48; }), "the batch length is less than a header");
  EXPECT_EQ(fault([](auto& h) { h.batch_length = INT32_MIN; }), "the batch length is less than a header");
  EXPECT_EQ(fault([](auto& h) { h.base_offset.value = -1; }), "the base offset is negative");
  EXPECT_EQ(fault([](auto& h) { h.last_offset_delta = -1; }), "the last offset delta is negative");
  EXPECT_EQ(fault([](auto& h) { h.base_offset.value = INT64_MAX - 9; }), "the last offset is out of range");
  EXPECT_EQ(fault([](auto& h) { h.base_offset.value = INT64_MAX - 10; }), "");
  EXPECT_EQ(fault([](auto& h) { h.attributes = 5; }), "the compression codec is unknown");
  EXPECT_EQ(fault([](auto& h) { h.attributes = 4; }), "");
  EXPECT_EQ(fault([](auto& h) { h.record_count = -1; }), "the record count is negative");
  EXPECT_EQ(fault([](auto& h) { h.record_count = 11; }), "there are more records than offsets");
  EXPECT_EQ(fault([](auto& h) { h.last_offset_delta = INT32_MAX, h.record_count = INT32_MAX; }),
            "there are more records than the batch has room for");
  EXPECT_EQ(fault([](auto& h) { h.batch_length -= 1; }), "there are more records than the batch has room for");
  EXPECT_EQ(fault([](auto& h) { h.record_count = 0; }), "");  // emptied by compaction
}

TEST(RecordDecoder, HolesAndNegativeTimeDeltas) {
  // offset deltas 2 and 130, timestamp deltas 0 and -500
  const std::string records = test::from_hex(
      "0e 00 00 04 01 02 61 00"
      "12 00 e707 8402 01 02 62 00");
  const Decoded d = decoded(batch_of(records, 2, 200, 0x40));
  EXPECT_EQ(d.fault, "");
  ASSERT_EQ(d.records.size(), 2u);
  EXPECT_EQ(d.records[0], (Owned{102, 1000, std::nullopt, "a", {}}));
  EXPECT_EQ(d.records[1], (Owned{230, 500, std::nullopt, "b", {}}));
}

TEST(RecordDecoder, EmptyBatches) {
  EXPECT_EQ(decoded(batch_of("", 0, 5)).fault, "");
  EXPECT_EQ(decoded(batch_of("", 0, 5, 1)).fault, "");
  EXPECT_EQ(decoded(batch_of("x", 0, 5)).fault, "there are bytes in a batch without records");
}

TEST(RecordDecoder, RecordAttributesAndAnyNegativeLengthAreTakenAsKafkaDoes) {
  const Decoded d = decoded(batch_of(test::from_hex("0c ff 00 00 03 05 00"), 1, 0));
  EXPECT_EQ(d.fault, "");
  ASSERT_EQ(d.records.size(), 1u);
  EXPECT_EQ(d.records[0], (Owned{100, 1000, std::nullopt, std::nullopt, {}}));
}

// Each once at the end of the batch, once with a good record and bytes behind it.
TEST(RecordDecoder, MalformedRecords) {
  const std::pair<const char*, const char*> cases[] = {
      {"0a 00 00 00 01 01", "a record is shorter than it can be"},
      {"01 00 00 00 01 01 00", "a record is shorter than it can be"},
      {"7e 00 00 00 01 01 00", "a record reaches beyond the end of the batch"},
      {"feffffff0f 00 00 00 01 01 00", "a record reaches beyond the end of the batch"},
      {"ffffffffff 00 00 00 01 01 00", "the batch ends before its last record"},
      {"10 00 00 0c 01 02 61 00", "the offset of a record is out of order"},  // delta 6 of 5
      {"10 00 00 01 01 02 61 00", "the offset of a record is out of order"},  // delta -1
      {"10 00 00 00 10 02 61 00 00", "the key of a record reaches beyond its end"},
      {"10 00 00 00 feffffff0f 00 00", "the key of a record reaches beyond its end"},
      {"10 00 00 00 01 08 61 00 00", "the value of a record reaches beyond its end"},
      {"10 00 00 00 01 02 61 02 00", "the headers of a record do not fill its length"},
      {"10 00 00 00 01 02 61 01 00", "the headers of a record do not fill its length"},     // -1 headers
      {"10 00 00 00 01 02 61 00 00", "the headers of a record do not fill its length"},     // a byte left
      {"12 00 00 00 01 01 02 01 00 00", "the headers of a record do not fill its length"},  // name of size -1
      {"12 00 00 00 01 01 02 02 61 04", "the headers of a record do not fill its length"},  // value beyond the end
      {"12 00 00 00 01 01 04 00 00 01", "the headers of a record do not fill its length"},  // one of two
      {"14 00 00 00 01 01 feffffff0f 00", "the headers of a record do not fill its length"},
  };
  for (const auto& [hex, fault] : cases) {
    const std::string record = test::from_hex(hex);
    const Decoded alone = decoded(batch_of(record, 1, 5));
    EXPECT_TRUE(alone.records.empty()) << hex;
    EXPECT_NE(alone.fault, "") << hex;
    EXPECT_EQ(alone.fault_offset, 100) << hex;
    if (std::string_view(fault).find("batch") == std::string_view::npos) {
      const Decoded between = decoded(batch_of(record + std::string(20, '\0'), 1, 5));
      EXPECT_TRUE(between.records.empty()) << hex;
      EXPECT_EQ(between.fault, fault) << hex;
    }
  }
  EXPECT_EQ(decoded(batch_of(test::from_hex(cases[2].first), 1, 5)).fault, cases[2].second);
}

TEST(RecordDecoder, AVarintThatLeavesItsRecordIsAFault) {
  // The value length begins in the record's last byte and ends in the next record.
  const std::string tail(30, '\x02');
  for (const char* hex : {"0c 00 00 00 01 01 80", "0c 00 00 00 01 80 00", "0c 00 00 00 80 00 00", "0c 00 00 80 80 80 80"}) {
    const Decoded d = decoded(batch_of(test::from_hex(hex) + tail, 1, 5));
    EXPECT_TRUE(d.records.empty()) << hex;
    EXPECT_NE(d.fault, "") << hex;
  }
}

TEST(RecordDecoder, WrongCountAndBytesLeftOver) {
  const std::string one = test::from_hex("0e 00 00 00 01 02 61 00");
  const Decoded missing = decoded(batch_of(one, 2, 5));
  EXPECT_EQ(missing.records.size(), 1u);
  EXPECT_EQ(missing.fault, "the batch ends before its last record");
  EXPECT_EQ(missing.fault_offset, 101);
  const Decoded surplus = decoded(batch_of(one + "x", 1, 5));
  EXPECT_EQ(surplus.records.size(), 1u);
  EXPECT_EQ(surplus.fault, "there are bytes behind the last record of a batch");
  const Decoded twice = decoded(batch_of(one + one, 2, 5));  // the same offset again
  EXPECT_EQ(twice.records.size(), 1u);
  EXPECT_EQ(twice.fault, "the offset of a record is out of order");
}

TEST(RecordDecoder, DecompressionFaultsAndLimit) {
  EXPECT_EQ(decoded(batch_of("rubbish", 1, 0, 1)).fault, "gzip data is corrupt");
  BatchBuilder builder({Compression::zstd, {}});
  add_all(builder, {{0, 5, std::nullopt, std::string(100000, 'v'), {}}});
  const std::string batch = text(builder.finish());
  EXPECT_EQ(decoded(batch, 3, 100000).fault, "decompressed data is over the limit");
  EXPECT_EQ(decoded(batch, 3, 100100).fault, "");
}

TEST(RecordDecoder, HostileRecordsNeverReadOutsideTheBatch) {
  auto random = test::random_source();
  BatchBuilder builder;
  std::size_t faults = 0;
  for (int i = 0; i < 20000; ++i) {
    if (i % 20 == 0) {
      builder.clear();
      add_all(builder, random_records(random, 1 + test::below(random, 12)));
    }
    const std::string good = text(builder.finish()).substr(61);
    const Decoded d =
        decoded(batch_of(test::damaged(random, good), builder.count(), builder.count() - 1), 1 + test::below(random, 5));
    faults += !d.fault.empty();
    EXPECT_LE(d.records.size(), static_cast<std::size_t>(builder.count()));
  }
  EXPECT_GT(faults, 1000u);
}

// The run of plain records has a loop of its own: the bytes must be those of add(), for every size around the steps of a varint,
// with other records among them, and up to any limit.
TEST(BatchBuilder, ARunGivesTheSameBytesAsRecordsOneByOne) {
  std::vector<std::string> values;
  for (std::size_t size :
       {0u, 1u, 57u, 58u, 63u, 64u, 65u, 100u, 127u, 128u, 4095u, 8100u, 8160u, 8192u, 70000u, 61u, 62u, 100u, 100u}) {
    values.emplace_back(size, static_cast<char>('a' + size % 26));
  }
  std::vector<Record> records;
  for (std::size_t i = 0; i < 200; ++i) {
    Record r;
    r.value = Bytes(values[i % values.size()]);
    if (i % 11 == 3) r.key = Bytes("k");
    if (i % 13 == 5) r.value = Bytes();
    if (i % 17 == 7) r.timestamp = Timestamp{static_cast<std::int64_t>(5000 - i)};
    records.push_back(r);
  }
  for (std::size_t limit : {0u, 70u, 300u, 9000u, 100000u, 4000000u}) {
    for (std::size_t from : {0u, 1u, 2u, 7u}) {
      BatchBuilder one_by_one, run;
      for (auto* builder : {&one_by_one, &run}) builder->set_default_timestamp(Timestamp{4000});
      std::size_t expected = 0;
      while (from + expected < records.size() && one_by_one.add_within(records[from + expected], limit)) ++expected;
      ASSERT_EQ(run.add_run(std::span(records).subspan(from), limit), expected) << limit;
      if (expected == 0) continue;
      const auto a = one_by_one.finish(), b = run.finish();
      ASSERT_EQ(std::string_view(a.data(), a.size()), std::string_view(b.data(), b.size())) << limit << ' ' << from;
    }
  }
}

// A batch laid out for a place near the end of a page leaves less room than a header takes.
TEST(BatchBuilder, ABatchIsTheSameWhereverItIsLaidOut) {
  Record r;
  const std::string value(100, 'v');
  r.value = Bytes(value);
  const std::vector<Record> records(3, r);
  BatchBuilder fresh;
  ASSERT_EQ(fresh.add_run(records, 100000), records.size());
  const auto expected = fresh.finish();
  for (std::int64_t position = 0; position < 4096; ++position) {
    BatchBuilder builder;
    builder.add(r);
    builder.clear_for(position);
    for (const auto& record : records) ASSERT_EQ(builder.add_run({&record, 1}, 100000), 1u);
    const auto batch = builder.finish();
    ASSERT_EQ(std::string_view(batch.data(), batch.size()), std::string_view(expected.data(), expected.size())) << position;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(batch.data()) % 4096, static_cast<std::uintptr_t>(position));
  }
}

}  // namespace partlog::format

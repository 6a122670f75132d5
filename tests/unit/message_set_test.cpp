// Messages of formats v0 and v1, every form that brokers kept on disk, from bytes made by hand.
#include "format/message_set.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "bytes_of.h"
#include "format/record_batch.h"
#include "support/old_messages.h"

namespace partlog::format {
namespace {

using test::encoded;
using test::OldMessage;

struct Owned {
  std::int64_t offset;
  std::int64_t timestamp;
  std::optional<std::string> key;
  std::optional<std::string> value;
  friend bool operator==(const Owned&, const Owned&) = default;
};

std::optional<std::string> owned(Bytes bytes) {
  return bytes.is_null() ? std::nullopt : std::optional<std::string>(bytes.view());
}

struct Decoded {
  std::vector<Owned> records;
  std::string fault;
  std::int64_t fault_offset;
  BatchHeader header;
};

Decoded decoded(std::string_view message, std::size_t at_a_time = 2, std::size_t limit = default_decompression_limit) {
  const std::vector<char> exact(message.begin(), message.end());  // so that a sanitizer sees a read behind the end
  const auto header = read_batch_header(exact);
  EXPECT_EQ(header_fault(header), nullptr);
  EXPECT_TRUE(checksum_matches(header, exact));
  RecordDecoder decoder;
  decoder.start(header, exact, limit);
  Decoded result;
  std::vector<Record> some(at_a_time);
  while (const std::size_t n = decoder.decode(some)) {
    for (const auto& record : std::span(some).first(n)) {
      EXPECT_EQ(record.headers.count, 0u);
      result.records.push_back({record.offset.value, record.timestamp.value, owned(record.key), owned(record.value)});
    }
  }
  EXPECT_EQ(decoder.decode(some), 0u);
  result.fault = decoder.fault();
  result.fault_offset = decoder.fault_offset().value;
  MessageSet set;
  set.open(header, exact, limit);
  result.header = set.header();
  set.open(set.header(), exact, limit);
  EXPECT_EQ(set.header().base_offset, result.header.base_offset);
  return result;
}

using Compress = std::string (*)(std::string_view);
constexpr int gzip = 1;
constexpr int snappy = 2;
constexpr int lz4 = 3;

std::string correct_lz4(std::string_view raw) { return test::lz4_frame(raw, false); }
std::string broken_lz4(std::string_view raw) { return test::lz4_frame(raw, true); }

OldMessage with_offset(OldMessage message, std::int64_t offset) {
  message.offset = offset;
  return message;
}

std::string wrapper(int magic, std::int64_t offset, std::string_view set, int attributes = gzip,
                    Compress compress = test::gzip_member, std::int64_t timestamp = 5000) {
  return encoded({offset, magic, attributes, timestamp, std::nullopt, compress(set)});
}

// Three messages with all kinds of keys and values.
std::vector<OldMessage> some_messages(int magic) {
  return {{0, magic, 0, 1000, "key", "value"}, {1, magic, 0, 999, std::nullopt, ""}, {2, magic, 0, 1001, "", std::nullopt}};
}

std::string set_of(const std::vector<OldMessage>& messages, const std::vector<std::int64_t>& offsets) {
  std::string set;
  for (std::size_t i = 0; i < messages.size(); ++i) set += encoded(with_offset(messages[i], offsets[i]));
  return set;
}

std::vector<Owned> expected_records(int magic, const std::vector<std::int64_t>& offsets) {
  std::vector<Owned> records;
  const auto messages = some_messages(magic);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    records.push_back({offsets[i], magic == 0 ? -1 : messages[i].timestamp, messages[i].key, messages[i].value});
  }
  return records;
}

}  // namespace

// A message of each format, field by field.
TEST(MessageSet, WrittenByHand) {
  const auto v0 = test::from_hex("00000000 00000007 00000012 00000000 00 00 00000001 6b 00000003 766f69");
  EXPECT_EQ(encoded({7, 0, 0, 0, "k", "voi"}), test::with_right_checksum(v0));
  const auto v1 = test::from_hex("00000000 00000007 0000001a 00000000 01 08 0000018bcfe56800 00000001 6b 00000003 766f69");
  EXPECT_EQ(encoded({7, 1, 8, 1'700'000'000'000, "k", "voi"}), test::with_right_checksum(v1));
}

TEST(MessageSet, SingleMessages) {
  for (const int magic : {0, 1}) {
    for (const auto& message : some_messages(magic)) {
      const auto d = decoded(encoded(with_offset(message, 42)));
      EXPECT_EQ(d.fault, "");
      EXPECT_EQ(d.records, (std::vector<Owned>{{42, magic == 0 ? -1 : message.timestamp, message.key, message.value}}));
      EXPECT_EQ(d.header.base_offset.value, 42);
      EXPECT_EQ(d.header.last_offset().value, 42);
      EXPECT_EQ(d.header.record_count, 1);
      EXPECT_EQ(d.header.leader_epoch, no_epoch);
      EXPECT_EQ(d.header.timestamp_type(), magic == 0 ? TimestampType::none : TimestampType::create_time);
    }
  }
}

TEST(MessageSet, AppendTimeOfASingleMessage) {
  const auto d = decoded(encoded({3, 1, 8, 77, std::nullopt, "v"}));
  EXPECT_EQ(d.records, (std::vector<Owned>{{3, 77, std::nullopt, "v"}}));
  EXPECT_EQ(d.header.timestamp_type(), TimestampType::log_append_time);
}

// Of the attributes of old messages only codec and timestamp type mean anything: no message is a control record.
TEST(MessageSet, UnknownAttributesMeanNothing) {
  for (const int magic : {0, 1}) {
    const auto d = decoded(encoded({3, magic, 0xf0, 77, std::nullopt, "v"}));
    EXPECT_EQ(d.records.size(), 1u);
    EXPECT_FALSE(d.header.is_control() || d.header.is_transactional() || d.header.has_delete_horizon());
  }
  EXPECT_EQ(decoded(encoded({3, 0, 8, 77, std::nullopt, "v"})).header.timestamp_type(), TimestampType::none);
}

TEST(MessageSet, AnyNegativeLengthIsNullAsForKafka) {
  auto message = encoded({3, 0, 0, 0, std::nullopt, std::nullopt});
  message.replace(18, 8, test::from_hex("80000000 fffffff0"));
  const auto d = decoded(test::with_right_checksum(message));
  EXPECT_EQ(d.fault, "");
  EXPECT_EQ(d.records, (std::vector<Owned>{{3, -1, std::nullopt, std::nullopt}}));
}

TEST(MessageSet, WrappersOfEveryCodecAndFraming) {
  const std::pair<int, Compress> codecs[] = {
      {gzip, test::gzip_member}, {snappy, test::snappy_block}, {snappy, test::xerial_frame}, {lz4, correct_lz4}};
  for (const auto& [codec, compress] : codecs) {
    SCOPED_TRACE(codec);
    const auto v0 = decoded(wrapper(0, 102, set_of(some_messages(0), {100, 101, 102}), codec, compress));
    EXPECT_EQ(v0.fault, "");
    EXPECT_EQ(v0.records, expected_records(0, {100, 101, 102}));
    EXPECT_EQ(v0.header.base_offset.value, 100);
    const auto v1 = decoded(wrapper(1, 102, set_of(some_messages(1), {0, 1, 2}), codec, compress));
    EXPECT_EQ(v1.fault, "");
    EXPECT_EQ(v1.records, expected_records(1, {100, 101, 102}));
    EXPECT_EQ(v1.header.base_offset.value, 100);
    EXPECT_EQ(v1.header.last_offset().value, 102);
    EXPECT_EQ(v1.header.record_count, 3);
    EXPECT_EQ(v1.header.max_timestamp.value, 5000);
  }
}

// KIP-57: wrong in format v0, and not looked at there; format v1 has it right.
TEST(MessageSet, BrokenLz4HeaderChecksum) {
  EXPECT_NE(broken_lz4("x"), correct_lz4("x"));
  const auto v0 = decoded(wrapper(0, 2, set_of(some_messages(0), {0, 1, 2}), lz4, broken_lz4));
  EXPECT_EQ(v0.fault, "");
  EXPECT_EQ(v0.records, expected_records(0, {0, 1, 2}));
  const auto v1 = decoded(wrapper(1, 2, set_of(some_messages(1), {0, 1, 2}), lz4, broken_lz4));
  EXPECT_EQ(v1.fault, "LZ4 data is corrupt");
  EXPECT_TRUE(v1.records.empty());
  for (std::size_t size = 0; size < 12; ++size) {
    const auto frame = broken_lz4("x").substr(0, size);
    EXPECT_NE(decoded(encoded({2, 0, lz4, 0, std::nullopt, frame})).fault, "") << size;
  }
}

// The frame header may tell the size of what is in it.
TEST(MessageSet, Lz4HeaderWithContentSize) {
  const auto set = set_of(some_messages(0), {0, 1, 2});
  auto frame = broken_lz4(set);
  frame[4] = 0x68;
  frame.insert(6, std::string{static_cast<char>(set.size()), 0, 0, 0, 0, 0, 0, 0});
  const auto d = decoded(encoded({2, 0, lz4, 0, std::nullopt, frame}));
  EXPECT_EQ(d.fault, "");
  EXPECT_EQ(d.records, expected_records(0, {0, 1, 2}));
  EXPECT_EQ(decoded(encoded({2, 1, lz4, 0, std::nullopt, frame})).fault, "LZ4 data is corrupt");
}

TEST(MessageSet, HolesAfterCompaction) {
  const auto v0 = decoded(wrapper(0, 140, set_of(some_messages(0), {100, 103, 140})));
  EXPECT_EQ(v0.records, expected_records(0, {100, 103, 140}));
  // The cleaner counts from the first message that is left; where the first was taken away later, offsets begin above 0.
  const auto v1 = decoded(wrapper(1, 140, set_of(some_messages(1), {0, 3, 40})));
  EXPECT_EQ(v1.records, expected_records(1, {100, 103, 140}));
  const auto later = decoded(wrapper(1, 140, set_of(some_messages(1), {5, 8, 45})));
  EXPECT_EQ(later.records, expected_records(1, {100, 103, 140}));
  EXPECT_EQ(later.header.base_offset.value, 100);
}

TEST(MessageSet, AppendTimeOfTheWrapperIsThatOfItsMessages) {
  const auto d = decoded(wrapper(1, 12, set_of(some_messages(1), {0, 1, 2}), gzip | 8));
  ASSERT_EQ(d.records.size(), 3u);
  for (const auto& record : d.records) EXPECT_EQ(record.timestamp, 5000);
}

TEST(MessageSet, MessagesOfTheOtherFormatInAWrapper) {
  const auto old_in_new = decoded(wrapper(1, 12, set_of(some_messages(0), {0, 1, 2}), gzip | 8));
  EXPECT_EQ(old_in_new.fault, "");
  EXPECT_EQ(old_in_new.records, expected_records(0, {10, 11, 12}));
  const auto new_in_old = decoded(wrapper(0, 12, set_of(some_messages(1), {10, 11, 12})));
  EXPECT_EQ(new_in_old.fault, "");
  EXPECT_EQ(new_in_old.records, expected_records(1, {10, 11, 12}));
}

TEST(MessageSet, NestedWrappersAreDamage) {
  const auto inner = wrapper(1, 1, set_of(some_messages(1), {0, 1, 2}));
  const auto d = decoded(wrapper(1, 11, encoded({0, 1, 0, 1, "a", "b"}) + inner));
  EXPECT_EQ(d.fault, "a compressed message stands in a compressed set");
  EXPECT_EQ(d.records, (std::vector<Owned>{{10, 1, "a", "b"}}));
  EXPECT_EQ(d.fault_offset, 11);
}

TEST(MessageSet, DamageInAWrapper) {
  const auto set = set_of(some_messages(1), {0, 1, 2});
  const auto fault_of = [](std::string_view bytes, std::int64_t offset = 102) {
    return decoded(wrapper(1, offset, bytes)).fault;
  };
  EXPECT_EQ(fault_of(""), "a compressed set has no messages");
  for (std::size_t cut = 1; cut < encoded(some_messages(1)[2]).size(); ++cut) {
    EXPECT_EQ(fault_of(set.substr(0, set.size() - cut)), "the last message of a compressed set is cut off");
  }
  EXPECT_EQ(fault_of(set, 1), "the offset of a compressed set is not that of its last message");
  EXPECT_EQ(fault_of(set, 2), "");
  EXPECT_EQ(decoded(wrapper(0, 102, set_of(some_messages(0), {99, 100, 101}))).fault,
            "the offset of a compressed set is not that of its last message");
  EXPECT_EQ(fault_of(set_of(some_messages(1), {0, 0, 2})), "the offset of a message in a compressed set is out of order");
  EXPECT_EQ(fault_of(set_of(some_messages(1), {-1, 0, 2})), "the offset of a message in a compressed set is out of order");
  EXPECT_EQ(fault_of(set_of(some_messages(1), {0, 1, std::int64_t{1} << 31}), std::int64_t{1} << 40),
            "the offsets of a compressed set are too far apart");
  auto wrong = set;
  wrong[wrong.size() - 9] ^= 1;  // the key length of the last message
  const auto d = decoded(wrapper(1, 102, wrong));
  EXPECT_EQ(d.fault, "the checksum of a message in a compressed set is wrong");
  EXPECT_EQ(d.records.size(), 2u);
  EXPECT_EQ(d.fault_offset, 102);
  wrong = set;
  wrong[16] = 2;
  EXPECT_EQ(fault_of(wrong), "a message in a compressed set has an unknown format");
  wrong = set;
  wrong[17] = 4;  // zstd
  EXPECT_EQ(fault_of(wrong), "a message in a compressed set is malformed");
  EXPECT_EQ(decoded(encoded({5, 1, gzip, 0, std::nullopt, std::nullopt})).fault, "a compressed message has no value");
  EXPECT_EQ(decoded(encoded({5, 1, gzip, 0, std::nullopt, ""})).fault, "gzip data is cut off");
  EXPECT_EQ(decoded(encoded({5, 1, gzip, 0, std::nullopt, "xxx"})).fault, "gzip data is corrupt");
}

TEST(MessageSet, KeyAndValueMustFillTheMessage) {
  const auto fault_of = [](const std::function<void(std::string&)>& change) {
    auto message = encoded({5, 0, 0, 0, "key", "value"});
    change(message);
    return decoded(test::with_right_checksum(message)).fault;
  };
  EXPECT_EQ(fault_of([](auto&) {}), "");
  EXPECT_EQ(fault_of([](auto& m) { m[21] = 100; }), "the key of a message reaches beyond its end");
  EXPECT_EQ(fault_of([](auto& m) { m[21] = 10; }), "the value of a message reaches beyond its end");
  EXPECT_EQ(fault_of([](auto& m) { m[28] = 6; }), "the value of a message reaches beyond its end");
  EXPECT_EQ(fault_of([](auto& m) { m[28] = 4; }), "key and value of a message do not fill it");
  EXPECT_EQ(fault_of([](auto& m) { m.replace(18, 4, "\xff\xff\xff\xff"); }), "the value of a message reaches beyond its end");
}

TEST(MessageSet, DecompressionIsBounded) {
  const auto message = wrapper(1, 2, set_of(some_messages(1), {0, 1, 2}));
  const auto size = set_of(some_messages(1), {0, 1, 2}).size();
  EXPECT_EQ(decoded(message, 2, size).fault, "");
  const auto d = decoded(message, 2, size - 1);
  EXPECT_EQ(d.fault, "decompressed data is over the limit");
  EXPECT_TRUE(d.records.empty());
  EXPECT_EQ(d.header.last_offset().value, 2);
}

TEST(MessageSet, HeaderFaults) {
  const auto fault_of = [](int magic, const std::function<void(BatchHeader&)>& change) {
    auto header = read_batch_header(std::string(encoded({5, magic, 0, 0, std::nullopt, std::nullopt})));
    change(header);
    const char* fault = header_fault(header);
    return std::string(fault == nullptr ? "" : fault);
  };
  for (const int magic : {0, 1}) {
    EXPECT_EQ(fault_of(magic, [](auto&) {}), "");
    EXPECT_EQ(fault_of(magic, [](auto& h) { --h.batch_length; }), "the message is shorter than it can be");
    EXPECT_EQ(fault_of(magic, [](auto& h) { h.batch_length = INT32_MIN; }), "the message is shorter than it can be");
    EXPECT_EQ(fault_of(magic, [](auto& h) { h.base_offset.value = -1; }), "the offset is negative");
    EXPECT_EQ(fault_of(magic, [](auto& h) { h.base_offset.value = INT64_MAX; }), "the offset is out of range");
    EXPECT_EQ(fault_of(magic, [](auto& h) { h.attributes = 4; }), "the compression codec is unknown");
    EXPECT_EQ(fault_of(magic, [](auto& h) { h.attributes = 3; }), "");
  }
}

TEST(MessageSet, HeadersThatAreNotThereWhole) {
  for (const int magic : {0, 1, 2}) {
    auto bytes = std::string(61, '\0');
    bytes[16] = static_cast<char>(magic);
    const std::size_t size = magic == 0 ? 18 : magic == 1 ? 26 : 61;
    EXPECT_FALSE(read_whole_header(std::span(bytes).first(size - 1)));
    EXPECT_TRUE(read_whole_header(std::span(bytes).first(size)));
  }
  EXPECT_FALSE(read_whole_header(std::string(16, '\0')));
}

TEST(MessageSet, EveryFlippedBitBehindTheOffsetAndSizeIsFound) {
  const auto good = wrapper(1, 102, set_of(some_messages(1), {0, 1, 2}));
  for (std::size_t bit = 12 * 8; bit < good.size() * 8; ++bit) {
    auto message = good;
    message[bit / 8] = static_cast<char>(message[bit / 8] ^ (1 << (bit % 8)));
    const auto header = read_whole_header(message);
    ASSERT_TRUE(header);
    const auto fits = header->size() <= static_cast<std::int64_t>(message.size());
    EXPECT_FALSE(header_fault(*header) == nullptr && fits && checksum_matches(*header, message)) << "bit " << bit;
  }
}

// Whatever the set is, whoever made the checksum right: records or a fault, and no access outside.
TEST(MessageSet, HostileSets) {
  auto random = test::random_source();
  for (int round = 0; round < 20000; ++round) {
    const int magic = static_cast<int>(test::below(random, 2));
    const auto set = test::damaged(random, set_of(some_messages(magic), {0, 1, 2}));
    const auto bytes = wrapper(magic, 2, set, lz4, correct_lz4);
    decoded(bytes, 1 + test::below(random, 4));
    decoded(encoded({2, magic, lz4, 0, std::nullopt, test::damaged(random, correct_lz4(set))}));
    auto plain = encoded({2, magic, 0, 0, "key", "value"});
    plain[18 + test::below(random, plain.size() - 18)] ^= static_cast<char>(1 << test::below(random, 8));
    decoded(test::with_right_checksum(plain));
  }
}

}  // namespace partlog::format

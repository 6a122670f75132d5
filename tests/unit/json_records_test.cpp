#include <gtest/gtest.h>
#include <unistd.h>

#include "bytes_of.h"
#include "json_input.h"
#include "record_output.h"

namespace partlog::cmd {
namespace {

using namespace std::literals;

std::string printed(const Record& record) {
  std::string out;
  append_json_record({out}, record, {"t", 3, 7, TimestampType::create_time});
  return out;
}

// The record that a line of JSON makes, printed again.
std::string again(std::string line) {
  JsonRecord json;
  if (auto error = parse_json_record(line, json)) return std::to_string(error->column) + ": " + error->message;
  Record record;
  record.key = json.key;
  record.value = json.value;
  record.headers = json.headers.block();
  record.timestamp = json.timestamp;
  record.offset = {5};
  return printed(record);
}

constexpr std::string_view start = R"({"topic":"t","partition":3,"offset":5,"timestamp":)";

TEST(JsonRecords, AllFieldsInTheirOrder) {
  std::string line = std::string(start) +
                     R"(12,"tstype":"create","epoch":7,"headers":[{"name":"a","value":"b"},{"name":"a","value":null},)"
                     R"({"name_b64":"/w==","value_b64":"/g=="}],"key":"k\n\u0000\u0001\"\\","value_b64":"AP8="})" +
                     "\n";
  EXPECT_EQ(again(line), line);
}

TEST(JsonRecords, NullAndEmptyDiffer) {
  std::string rest = R"(-1,"tstype":"create","epoch":7,"headers":[],"key":)";
  EXPECT_EQ(again(R"({"value":null})"), std::string(start) + rest + "null,\"value\":null}\n");
  EXPECT_EQ(again(R"({"key":"","value":""})"), std::string(start) + rest + "\"\",\"value\":\"\"}\n");
}

TEST(JsonRecords, WhatKcatWrites) {
  EXPECT_EQ(again(R"({"topic":"x","partition":0,"offset":1,"tstype":"create","ts":99,"broker":1,"headers":["a","b","c",null],)"
                  R"("key":null,"payload":"p"})"),
            std::string(start) +
                R"(99,"tstype":"create","epoch":7,"headers":[{"name":"a","value":"b"},{"name":"c","value":null}],)"
                R"("key":null,"value":"p"})" +
                "\n");
}

// They are encoded over their own text, where that has room for them; names and values of all sizes of length, in all forms.
TEST(JsonRecords, HeadersInEveryForm) {
  auto random = test::random_source();
  const std::size_t sizes[] = {0, 1, 63, 64, 8191, 8192, 1 << 20};
  for (int round = 0; round < 200; ++round) {
    HeaderBuilder expected;
    std::string list;
    const bool is_flat = round % 4 == 0;
    for (auto n = test::below(random, 5); n > 0; --n) {
      const std::string name(sizes[test::below(random, std::size(sizes))], 'n');
      const std::string text(sizes[test::below(random, std::size(sizes))], 'v');
      const bool is_null = test::below(random, 4) == 0;
      const auto value = is_null ? "null"s : '"' + text + '"';
      expected.add(name, is_null ? Bytes() : Bytes(text));
      const auto named = is_flat ? '"' + name + '"' : R"("name":")" + name + '"';
      const auto valued = is_flat ? value : R"("value":)" + value;
      const bool name_is_last = !is_flat && test::below(random, 4) == 0;
      const auto both = name_is_last ? valued + ',' + named : named + ',' + valued;
      list += (list.empty() ? "" : ",") + (is_flat ? both : '{' + both + '}');
    }
    auto line = R"({"key":"k","headers":[)" + list + R"(],"value":"x"})";
    JsonRecord json;
    ASSERT_FALSE(parse_json_record(line, json));
    const auto got = json.headers.block();
    const auto wanted = expected.block();
    ASSERT_EQ(got.count, wanted.count);
    ASSERT_EQ(std::string_view(got.data, got.size), std::string_view(wanted.data, wanted.size)) << "round " << round;
    ASSERT_EQ(json.key, Bytes("k"));
    ASSERT_EQ(json.value, Bytes("x"));
  }
}

TEST(JsonRecords, MistakesWithTheirColumn) {
  EXPECT_EQ(again(R"({"key":"k"})"), "11: no value field");
  EXPECT_EQ(again(R"({"value":"x", "valu":1})"), "15: unknown field \"valu\"");
  EXPECT_EQ(again(R"({"value": 12})"), "11: field \"value\" cannot be a number");
  EXPECT_EQ(again(R"({"value":{}})"), "10: field \"value\" cannot be an object");
  EXPECT_EQ(again(R"({"value":"x","payload":"y"})"), "14: the value is given twice");
  EXPECT_EQ(again(R"({"value_b64":"A"})"), "14: field \"value_b64\" is not base64");
  EXPECT_EQ(again(R"({"value":"x","headers":["a"]})"), "28: a header without value");
  EXPECT_EQ(again(R"({"value":"x","headers":[{"value":"v"}]})"), "37: a header without name");
  EXPECT_EQ(again(R"({"value":"x","headers":[[]]})"), "25: among the headers stands an array");
  EXPECT_EQ(again(R"({"value":"x","timestamp":18446744073709551615})"), "26: the number is out of range");
  EXPECT_EQ(again("[]"), "1: a line must be one JSON object, not an array");
  EXPECT_EQ(again("\"x\""), "1: a line must be one JSON object, not a string");
  EXPECT_EQ(again(R"({"value":"x"}})").substr(0, 16), "14: broken JSON:");
  EXPECT_EQ(again("{\"value\":\"\xff\"}").substr(0, 16), "11: broken JSON:");
}

TEST(JsonRecords, NumbersAreIntegersInRange) {
  auto timestamp_of = [](std::string_view number) {
    JsonRecord json;
    auto line = "{\"value\":null,\"ts\":" + std::string(number) + "}";
    auto error = parse_json_record(line, json);
    return error ? std::to_string(error->column) + ": " + error->message : std::to_string(json.timestamp.value);
  };
  EXPECT_EQ(timestamp_of("1e3"), "1000");
  EXPECT_EQ(timestamp_of("1.5E3"), "1500");
  EXPECT_EQ(timestamp_of("5.0"), "5");
  EXPECT_EQ(timestamp_of("9223372036854775807"), "9223372036854775807");
  for (const char* fraction : {"1.5", "1e-3", "-0.1"}) {
    EXPECT_EQ(timestamp_of(fraction), "20: field \"ts\" must be an integer") << fraction;
  }
  for (const char* huge :
       {"9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e30", "1e999", "9007199254740993.5e3"}) {
    EXPECT_EQ(timestamp_of(huge), "20: the number is out of range") << huge;
  }
  EXPECT_EQ(timestamp_of("-5"), "20: the timestamp lies before 1970");
  EXPECT_EQ(timestamp_of("-1"), std::to_string(no_timestamp.value));
  EXPECT_EQ(timestamp_of("null"), std::to_string(no_timestamp.value));
  // What is ignored is ignored, and what cannot be a number is not called a fraction.
  EXPECT_EQ(again(R"({"offset":18446744073709551615,"epoch":1.5,"value":null})").substr(0, 12), R"({"topic":"t")");
  EXPECT_EQ(again(R"({"value":1.5})"), "10: field \"value\" cannot be a number");
}

// What RecordOutput prints, read back from a pipe.
std::string output_of(OutputFormat format, const Record& record) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  Output output(ends[1]);
  RecordOutput(output, std::move(format)).write({&record, 1}, {"t", 3, 7, TimestampType::create_time});
  output.finish();
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(::read(ends[0], text.data(), text.size())));
  ::close(ends[0]);
  return text;
}

Record sample() {
  Record record;
  record.value = "v\xff"sv;
  record.timestamp = {1500};
  record.offset = {5};
  return record;
}

TEST(RecordOutput, FormatTokensAndModifiers) {
  OutputFormat format;
  format.format = "%t %p %o %T %T{iso} [%k] %K %S %s{hex} %s{base64} %s{json} %k{json} %R%% {x}";
  EXPECT_EQ(output_of(format, sample()),
            "t 3 5 1500 1970-01-01T00:00:01.500Z [] -1 2 76ff dv8= {\"value_b64\":\"dv8=\"} null \0\0\0\2% {x}"s);
  format.null_marker = "NIL";
  format.format = "%k %S{json}{hex}";
  EXPECT_EQ(output_of(format, sample()), "NIL 2{hex}");
}

TEST(RecordOutput, Text) {
  EXPECT_EQ(output_of({}, sample()), "v\xff\n");
  OutputFormat format;
  format.key_delimiter = ":";
  format.delimiter.assign(2, '-');
  EXPECT_EQ(output_of(format, sample()), ":v\xff--");
  format.null_marker = "~";
  EXPECT_EQ(output_of(format, sample()), "~:v\xff--");
}

}  // namespace
}  // namespace partlog::cmd

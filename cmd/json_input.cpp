#include "json_input.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "text.h"

namespace partlog::cmd {
namespace {

// The line for RapidJSON, which writes what it unpacks over what it has read.
class LineStream {
 public:
  using Ch = char;

  explicit LineStream(std::span<char> line) : begin_(line.data()), at_(begin_), end_(begin_ + line.size()) {}

  const char* position() const { return at_; }
  bool at_end() const { return at_ == end_; }

  char Peek() const { return at_ != end_ ? *at_ : '\0'; }
  char Take() { return at_ != end_ ? *at_++ : '\0'; }
  std::size_t Tell() const { return static_cast<std::size_t>(at_ - begin_); }
  char* PutBegin() { return to_ = at_; }
  void Put(char c) { *to_++ = c; }
  std::size_t PutEnd(const char* from) const { return static_cast<std::size_t>(to_ - from); }

 private:
  char* begin_;
  char* at_;
  char* to_ = nullptr;
  char* end_;
};

enum class Field { none, ignored, key, key_b64, value, value_b64, headers, timestamp, partition, name, name_b64 };

Field record_field(std::string_view name) {
  if (name == "value" || name == "payload") return Field::value;
  if (name == "key") return Field::key;
  if (name == "headers") return Field::headers;
  if (name == "timestamp" || name == "ts") return Field::timestamp;
  if (name == "partition") return Field::partition;
  if (name == "value_b64") return Field::value_b64;
  if (name == "key_b64") return Field::key_b64;
  if (name == "topic" || name == "offset" || name == "tstype" || name == "epoch" || name == "broker") return Field::ignored;
  return Field::none;
}

Field header_field(std::string_view name) {
  if (name == "name") return Field::name;
  if (name == "name_b64") return Field::name_b64;
  if (name == "value") return Field::value;
  if (name == "value_b64") return Field::value_b64;
  return Field::none;
}

// Receives what RapidJSON finds. Each function returns false, with error() set, to end the parsing.
class Receiver {
 public:
  Receiver(std::span<char> line, const LineStream& stream, JsonRecord& record) : line_(line), stream_(stream), record_(record) {}

  const std::optional<JsonError>& error() const { return error_; }

  bool Null() {
    return scalar("null", [&] { return take_null(); });
  }
  bool Bool(bool) {
    return scalar("a truth value", [&] { return field_ == Field::ignored; });
  }
  // All numbers are given as their text, which stands before where the stream is.
  bool RawNumber(const char*, unsigned size, bool) {
    const std::string_view text(stream_.position() - size, size);
    return scalar("a number", [&] { return take_number_text(text); });
  }
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool String(const char* text, unsigned size, bool) {
    return scalar("a string", [&] { return take_string({text, size}); });
  }

  bool StartObject() {
    if (place_ == Place::start) {
      place_ = Place::record;
    } else if (place_ == Place::headers && !flat_name_) {
      place_ = Place::header;
      name_.reset();
      header_value_ = {};
      has_header_value_ = false;
    } else {
      return wrong("an object");
    }
    return done();
  }

  bool Key(const char* text, unsigned size, bool) {
    const std::string_view name(text, size);
    if (!is_utf8(name)) return fail_encoding(name);
    field_name_ = name;
    field_ = place_ == Place::record ? record_field(name) : header_field(name);
    if (field_ == Field::none) {
      return fail("unknown field \"" + field_name_.substr(0, 100) + '"' + (place_ == Place::header ? " in a header" : ""));
    }
    if (seen_twice()) return fail("the " + kind() + " is given twice");
    return done();
  }

  bool EndObject(unsigned) {
    if (place_ == Place::header) {
      if (!name_ || !has_header_value_) return fail(name_ ? "a header without value" : "a header without name");
      add_header(*name_, header_value_);
      place_ = Place::headers;
    } else {
      if (!has_value_) return fail("no value field");
      place_ = Place::end;
    }
    return done();
  }

  bool StartArray() {
    if (place_ != Place::record || field_ != Field::headers) return wrong("an array");
    place_ = Place::headers;
    flat_name_.reset();
    record_.headers.write_over(line_.data() + (stream_.position() - line_.data()));
    return done();
  }

  bool EndArray(unsigned) {
    if (flat_name_) return fail("a header without value");
    place_ = Place::record;
    return done();
  }

  // What the parser found wrong itself, `offset` bytes from the start of the line.
  JsonError parse_error(rapidjson::ParseErrorCode code, std::size_t offset) const {
    if (code == rapidjson::kParseErrorNumberTooBig) return {column(), "the number is out of range"};
    std::string message = rapidjson::GetParseError_En(code);
    message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    if (message.ends_with('.')) message.pop_back();
    return {offset + 1, "broken JSON: " + message};
  }

 private:
  enum class Place { start, record, headers, header, end };

  bool done() {
    token_end_ = stream_.position();
    return true;
  }

  // Where the token in hand begins.
  std::size_t column() const {
    const char* at = token_end_ == nullptr ? line_.data() : token_end_;
    const char* end = line_.data() + line_.size();
    while (at < end && std::string_view(" \t\r,:").find(*at) != std::string_view::npos) ++at;
    return static_cast<std::size_t>(at - line_.data()) + 1;
  }

  bool fail(std::string message) {
    error_ = JsonError{column(), std::move(message)};
    return false;
  }

  bool fail_encoding(std::string_view text) {
    const auto* const at = text.data() + utf8_prefix(text);
    error_ = JsonError{static_cast<std::size_t>(at - line_.data()) + 1, "broken JSON: a string that is not UTF-8"};
    return false;
  }

  bool wrong(std::string_view what) {
    if (place_ == Place::start) return fail("a line must be one JSON object, not " + std::string(what));
    if (place_ == Place::headers) return fail("among the headers stands " + std::string(what));
    return fail("field \"" + field_name_ + "\" cannot be " + std::string(what));
  }

  template <class Take>
  bool scalar(std::string_view what, Take take) {
    bool fits = place_ == Place::headers || ((place_ == Place::record || place_ == Place::header) && field_ != Field::headers) ||
                (place_ == Place::record && what == "null");
    if (!fits || !take()) return error_ ? false : wrong(what);
    return done();
  }

  bool take_null() {
    if (place_ == Place::headers) return flat_header_value({});
    if (place_ == Place::header) return field_ == Field::value;  // the value is null already
    return field_ == Field::key || field_ == Field::value || field_ == Field::timestamp || field_ == Field::headers ||
           field_ == Field::ignored || field_ == Field::partition;
  }

  bool take_number(std::int64_t number) {
    if (place_ != Place::record) return false;
    if (field_ == Field::timestamp) {
      if (number < no_timestamp.value) return fail("the timestamp lies before 1970");
      record_.timestamp = {number};
    } else if (field_ == Field::partition) {
      record_.partition = number;
      record_.partition_column = column();
    } else {
      return field_ == Field::ignored;
    }
    return true;
  }

  bool takes_number() const { return place_ == Place::record && (field_ == Field::timestamp || field_ == Field::partition); }

  bool take_huge_number() {
    if (takes_number()) return fail("the number is out of range");
    return place_ == Place::record && field_ == Field::ignored;
  }

  bool take_number_text(std::string_view text) {
    std::int64_t integer = 0;
    const auto end = text.data() + text.size();
    if (const auto [stop, error] = std::from_chars(text.data(), end, integer); error == std::errc() && stop == end) {
      return take_number(integer);
    }
    double number = 0;
    const bool in_range = std::from_chars(text.data(), end, number).ec == std::errc();
    return in_range ? take_real_number(number, text) : take_huge_number();
  }

  // `1e3` and `5.0` are integers, too, as long as a double tells all of them apart.
  bool take_real_number(double number, std::string_view text) {
    constexpr double exact = 9007199254740992;  // 2^53
    if (!takes_number()) return take_huge_number();
    if (text.find_first_of(".eE") == std::string_view::npos || std::fabs(number) > exact) return take_huge_number();
    if (number != std::floor(number)) return fail("field \"" + field_name_ + "\" must be an integer");
    return take_number(static_cast<std::int64_t>(number));
  }

  bool take_string(std::string_view text) {
    if (!is_utf8(text)) return fail_encoding(text);
    if (place_ == Place::headers) {
      if (flat_name_) return flat_header_value(Bytes(text));
      flat_name_ = text;
      return true;
    }
    switch (field_) {
      case Field::ignored:
        return true;
      case Field::key:
        record_.key = Bytes(text);
        return true;
      case Field::value:
        (place_ == Place::header ? header_value_ : record_.value) = Bytes(text);
        return true;
      case Field::name:
        name_ = text;
        return true;
      case Field::key_b64:
        return decode(text, [&](std::string_view bytes) { record_.key = Bytes(bytes); });
      case Field::value_b64:
        return decode(text,
                      [&](std::string_view bytes) { (place_ == Place::header ? header_value_ : record_.value) = Bytes(bytes); });
      case Field::name_b64:
        return decode(text, [&](std::string_view bytes) { name_ = bytes; });
      default:
        return false;
    }
  }

  template <class Take>
  bool decode(std::string_view text, Take take) {
    const auto bytes = line_.subspan(static_cast<std::size_t>(text.data() - line_.data()), text.size());
    const auto size = decode_base64(bytes);
    if (!size) return fail("field \"" + field_name_ + "\" is not base64");
    take({bytes.data(), *size});
    return true;
  }

  bool flat_header_value(Bytes value) {
    if (!flat_name_) return false;
    add_header(*flat_name_, value);
    flat_name_.reset();
    return true;
  }

  void add_header(std::string_view name, Bytes value) { record_.headers.add_over(name, value); }

  // Marks what the field gives as seen.
  bool seen_twice() {
    bool* seen = nullptr;
    switch (field_) {
      case Field::key:
      case Field::key_b64:
        seen = &has_key_;
        break;
      case Field::value:
      case Field::value_b64:
        seen = place_ == Place::header ? &has_header_value_ : &has_value_;
        break;
      case Field::headers:
        seen = &has_headers_;
        break;
      case Field::timestamp:
        seen = &has_timestamp_;
        break;
      default:
        return false;
    }
    return std::exchange(*seen, true);
  }

  std::string kind() const {
    switch (field_) {
      case Field::key:
      case Field::key_b64:
        return "key";
      case Field::headers:
        return "list of headers";
      case Field::timestamp:
        return "timestamp";
      default:
        return "value";
    }
  }

  std::span<char> line_;
  const LineStream& stream_;
  JsonRecord& record_;
  const char* token_end_ = nullptr;
  std::optional<JsonError> error_;
  Place place_ = Place::start;
  Field field_ = Field::none;
  std::string field_name_;
  bool has_key_ = false;
  bool has_value_ = false;
  bool has_headers_ = false;
  bool has_timestamp_ = false;
  std::optional<std::string_view> flat_name_;
  std::optional<std::string_view> name_;
  Bytes header_value_;
  bool has_header_value_ = false;
};

}  // namespace

void JsonRecord::clear() {
  key = value = {};
  headers.clear();
  timestamp = no_timestamp;
  partition.reset();
}

std::optional<JsonError> parse_json_record(std::span<char> line, JsonRecord& record) {
  record.clear();
  LineStream stream(line);
  Receiver receiver(line, stream, record);
  rapidjson::Reader reader;
  const auto result = reader.Parse < rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag > (stream, receiver);
  if (receiver.error()) return receiver.error();
  if (result.IsError()) return receiver.parse_error(result.Code(), result.Offset());
  // A zero byte is an end to RapidJSON.
  if (!stream.at_end()) return receiver.parse_error(rapidjson::kParseErrorDocumentRootNotSingular, stream.Tell());
  return std::nullopt;
}

}  // namespace partlog::cmd

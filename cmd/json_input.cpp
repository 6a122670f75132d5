#include "json_input.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "text.h"

namespace partlog::cmd {
namespace {

// Characters of the line, telling how far the parser has read.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *position_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const TrackingIterator& a, const TrackingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** position_;
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

// Receives what nlohmann's parser finds. Each function returns false, with error() set, to end the parsing.
class Receiver {
 public:
  Receiver(std::string_view line, JsonRecord& record) : line_(line), record_(record), read_to_(line.data()) {}

  const char** position() { return &read_to_; }
  const std::optional<JsonError>& error() const { return error_; }

  bool null() {
    return scalar("null", [&] { return take_null(); });
  }
  bool boolean(bool) {
    return scalar("a truth value", [&] { return field_ == Field::ignored; });
  }
  bool number_integer(std::int64_t number) {
    return scalar("a number", [&] { return take_number(number); });
  }
  bool number_unsigned(std::uint64_t number) {
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_integer(static_cast<std::int64_t>(number));
    }
    return scalar("a number", [&] { return take_huge_number(); });
  }
  // With point or exponent, or beyond 64 bits.
  bool number_float(double number, const std::string& text) {
    return scalar("a number", [&] { return take_real_number(number, text); });
  }
  bool string(std::string& text) {
    return scalar("a string", [&] { return take_string(text); });
  }
  bool binary(nlohmann::json::binary_t&) { return false; }

  bool start_object(std::size_t) {
    if (place_ == Place::start) {
      place_ = Place::record;
    } else if (place_ == Place::headers && !flat_name_) {
      place_ = Place::header;
      name_.reset();
      header_value_.reset();
      has_header_value_ = false;
    } else {
      return wrong("an object");
    }
    return done();
  }

  bool key(std::string& name) {
    field_name_ = name;
    field_ = place_ == Place::record ? record_field(name) : header_field(name);
    if (field_ == Field::none) {
      return fail("unknown field \"" + name.substr(0, 100) + '"' + (place_ == Place::header ? " in a header" : ""));
    }
    if (seen_twice()) return fail("the " + kind() + " is given twice");
    return done();
  }

  bool end_object() {
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

  bool start_array(std::size_t) {
    if (place_ != Place::record || field_ != Field::headers) return wrong("an array");
    place_ = Place::headers;
    flat_name_.reset();
    return done();
  }

  bool end_array() {
    if (flat_name_) return fail("a header without value");
    place_ = Place::record;
    return done();
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& exception) {
    constexpr int number_overflow = 406;  // nlohmann's number of a literal that no double can hold
    if (exception.id == number_overflow) return fail("the number is out of range");
    std::string message = exception.what();
    if (std::size_t at = message.find(": "); at != std::string::npos) message.erase(0, at + 2);
    message.resize(std::min(message.find("; last read"), message.size()));
    error_ = JsonError{std::max<std::size_t>(position, 1), "broken JSON: " + message};
    return false;
  }

 private:
  enum class Place { start, record, headers, header, end };

  bool done() {
    token_end_ = read_to_;
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
    if (place_ == Place::headers) return flat_header_value(std::nullopt);
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

  // `1e3` and `5.0` are integers, too, as long as a double tells all of them apart.
  bool take_real_number(double number, const std::string& text) {
    constexpr double exact = 9007199254740992;  // 2^53
    if (!takes_number()) return take_huge_number();
    if (text.find_first_of(".eE") == std::string::npos || std::fabs(number) > exact) return take_huge_number();
    if (number != std::floor(number)) return fail("field \"" + field_name_ + "\" must be an integer");
    return take_number(static_cast<std::int64_t>(number));
  }

  bool take_string(std::string& text) {
    if (place_ == Place::headers) {
      if (flat_name_) return flat_header_value(text);
      flat_name_ = text;
      return true;
    }
    switch (field_) {
      case Field::ignored:
        return true;
      case Field::key:
        record_.key = std::move(text);
        return true;
      case Field::value:
        (place_ == Place::header ? header_value_ : record_.value) = std::move(text);
        return true;
      case Field::name:
        name_ = std::move(text);
        return true;
      case Field::key_b64:
        return decode(text, record_.key);
      case Field::value_b64:
        return decode(text, place_ == Place::header ? header_value_ : record_.value);
      case Field::name_b64:
        return decode(text, name_);
      default:
        return false;
    }
  }

  bool decode(const std::string& text, std::optional<std::string>& target) {
    if (decode_base64(text, target.emplace())) return true;
    return fail("field \"" + field_name_ + "\" is not base64");
  }

  bool flat_header_value(const std::optional<std::string>& value) {
    if (!flat_name_) return false;
    add_header(*flat_name_, value);
    flat_name_.reset();
    return true;
  }

  void add_header(const std::string& name, const std::optional<std::string>& value) {
    record_.headers.add(name, value ? Bytes(*value) : Bytes());
  }

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

  std::string_view line_;
  JsonRecord& record_;
  const char* read_to_;
  const char* token_end_ = nullptr;
  std::optional<JsonError> error_;
  Place place_ = Place::start;
  Field field_ = Field::none;
  std::string field_name_;
  bool has_key_ = false;
  bool has_value_ = false;
  bool has_headers_ = false;
  bool has_timestamp_ = false;
  std::optional<std::string> flat_name_;
  std::optional<std::string> name_;
  std::optional<std::string> header_value_;
  bool has_header_value_ = false;
};

}  // namespace

void JsonRecord::clear() {
  key.reset();
  value.reset();
  headers.clear();
  timestamp = no_timestamp;
  partition.reset();
}

std::optional<JsonError> parse_json_record(std::string_view line, JsonRecord& record) {
  record.clear();
  Receiver receiver(line, record);
  TrackingIterator first(line.data(), receiver.position());
  TrackingIterator last(line.data() + line.size(), receiver.position());
  nlohmann::json::sax_parse(first, last, &receiver);
  return receiver.error();
}

}  // namespace partlog::cmd

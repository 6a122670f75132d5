// Records to the bytes that `consume` prints: text, a format string, or JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "output.h"
#include "partlog/record.h"
#include "partlog/types.h"

namespace partlog::cmd {

struct OutputFormat {
  std::string delimiter = "\n";
  std::optional<std::string> key_delimiter;  // the key and this come before the value
  std::optional<std::string> null_marker;    // else null is nothing
  std::optional<std::string> format;         // kcat's tokens; overrides the delimiters
  bool json = false;
};

// Where records come from; the same for all records of one span.
struct Origin {
  std::string_view topic;
  int partition;  // -1: it is not known of which partition, nor of which topic
  std::int32_t epoch;
  TimestampType timestamp_type;

  bool is_known() const { return partition >= 0; }
  Bytes topic_or_null() const { return is_known() ? Bytes(topic) : Bytes(); }
};

class RecordOutput {
 public:
  // UsageError for an unknown token in the format.
  RecordOutput(Output& output, OutputFormat format);

  void write(std::span<const Record> records, const Origin& origin);

 private:
  enum class Modifier { none, hex, base64, json, iso };
  struct Token {
    char kind;  // of kcat's tokens, or '\0' for text
    Modifier modifier;
    std::string text;
  };

  void parse_format(std::string_view format);
  static Modifier take_modifier(std::string_view& rest, char kind);

  void write_values(std::span<const Record> records);
  void write_text(const Record& record);
  void write_format(const Record& record, const Origin& origin);
  void write_json(const Record& record, const Origin& origin);

  void put(Bytes bytes);
  void append_bytes(const Token& token, Bytes bytes);
  void append_partition(const Token& token, const Origin& origin);
  void append_time(const Token& token, Timestamp time);
  void append_headers(const Token& token, HeaderBlock headers);

  Output& output_;
  OutputFormat format_;
  std::vector<Token> tokens_;
  std::string scratch_;  // a record in the making
};

// `create`, `logappend` or `none`.
std::string_view timestamp_type_name(TimestampType type);

// A record in the making. Of a large one, what has been made goes to `output` meanwhile, if there is one.
struct RecordText {
  std::string& text;
  Output* output = nullptr;
};

// One object and a newline.
void append_json_record(RecordText out, const Record& record, const Origin& origin);

}  // namespace partlog::cmd

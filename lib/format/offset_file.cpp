#include "format/offset_file.h"

#include <charconv>
#include <limits>

#include "base/time_text.h"
#include "format/properties.h"
#include "partlog/error.h"

namespace partlog::format {

namespace {

std::string escaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else if (c == '\t') {
      line += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      line.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    } else {
      line += c;
    }
  }
  return line;
}

// What one escape behind its backslash stands for, taken off; nullopt: no such escape.
std::optional<char> take_escape(std::string_view& rest) {
  if (rest.empty()) return std::nullopt;
  const char kind = rest.front();
  rest.remove_prefix(1);
  if (kind == '\\') return '\\';
  if (kind == 'n') return '\n';
  if (kind == 'r') return '\r';
  if (kind == 't') return '\t';
  unsigned char byte = 0;
  if (kind != 'x' || rest.size() < 2) return std::nullopt;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + 2, byte, 16);
  if (error != std::errc() || stop != rest.data() + 2) return std::nullopt;
  rest.remove_prefix(2);
  return static_cast<char>(byte);
}

std::optional<std::string> unescaped(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const char c = line.front();
    line.remove_prefix(1);
    const auto byte = c == '\\' ? take_escape(line) : c;
    if (!byte) return std::nullopt;
    text += *byte;
  }
  return text;
}

class Fields {
 public:
  Fields(std::string_view text, const std::string& path) : properties_(parse_properties(text, path)), path_(path) {}

  [[noreturn]] void damaged(const std::string& what) const { throw Error(ErrorCode::damaged, path_ + ": " + what); }
  std::string text(std::string_view key) const {
    const auto place = properties_.find(key);
    return place == properties_.end() ? std::string() : place->second;
  }
  std::optional<std::int64_t> number(std::string_view key, std::int64_t min, std::int64_t max) const {
    if (!properties_.contains(key)) return std::nullopt;
    const auto value = integer_property(properties_, key, path_);
    if (value < min || value > max) damaged("\"" + std::string(key) + "\" is out of range: " + std::to_string(value));
    return value;
  }

 private:
  Properties properties_;
  const std::string& path_;
};

}  // namespace

// Its lines are in the order of the alphabet, so one that was cut short lacks its last newline or its last key.
OffsetFile parse_offset_file(std::string_view text, const std::string& path) {
  const Fields fields(text, path);
  if (!text.ends_with('\n')) fields.damaged(text.empty() ? "the file is empty" : "the last line has no end");
  OffsetFile file;
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  if (const auto offset = fields.number("offset", 0, largest)) file.offset = Offset{*offset};
  file.topic_id = fields.text("topic_id");
  if (file.topic_id.empty()) fields.damaged("there is no \"topic_id\"");
  const auto epoch = fields.number("leader_epoch", no_epoch, std::numeric_limits<std::int32_t>::max());
  file.leader_epoch = static_cast<std::int32_t>(epoch.value_or(no_epoch));
  file.cuts = static_cast<std::size_t>(fields.number("cuts", 0, largest).value_or(0));
  if (file.offset) {
    const auto time = parse_iso_time(fields.text("committed_at"));
    if (!time) fields.damaged("\"committed_at\" is not an ISO 8601 time in UTC with milliseconds");
    file.committed_at = *time;
  }
  file.member = fields.text("member");
  const auto metadata = unescaped(fields.text("metadata"));
  if (!metadata) fields.damaged("\"metadata\" has an unknown escape");
  file.metadata = *metadata;
  file.path_synced = fields.text("path_synced") == "true";
  return file;
}

std::string format_offset_file(const OffsetFile& file) {
  Properties properties{{"topic_id", file.topic_id},
                        {"leader_epoch", std::to_string(file.leader_epoch)},
                        {"cuts", std::to_string(file.cuts)},
                        {"member", file.member},
                        {"metadata", escaped(file.metadata)}};
  if (file.offset) {
    properties["offset"] = std::to_string(file.offset->value);
    properties["committed_at"] = iso_time(file.committed_at);
  }
  if (file.path_synced) properties["path_synced"] = "true";
  return format_properties(properties);
}

}  // namespace partlog::format

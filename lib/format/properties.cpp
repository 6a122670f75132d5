#include "format/properties.h"

#include <charconv>

#include "format/text_lines.h"
#include "partlog/error.h"

namespace partlog::format {

void TextLines::damaged(const std::string& what) const {
  throw Error(ErrorCode::damaged, path_ + ": line " + std::to_string(number_) + ": " + what);
}

Properties parse_properties(std::string_view text, const std::string& path) {
  Properties properties;
  TextLines lines(text, path);
  std::string_view line;
  while (lines.next(line)) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) lines.damaged("not key=value");
    const auto [place, is_new] = properties.emplace(line.substr(0, equals), line.substr(equals + 1));
    if (!is_new) lines.damaged("\"" + place->first + "\" occurs twice");
  }
  return properties;
}

std::string format_properties(const Properties& properties) {
  std::string text;
  for (const auto& [key, value] : properties) {
    if (key.empty() || key.front() == '#' || key.find_first_of("=\n") != std::string::npos ||
        value.find('\n') != std::string::npos) {
      throw Error(ErrorCode::invalid_argument, "property \"" + key + "\" cannot be stored on a line of its own");
    }
    text.append(key).append("=").append(value).append("\n");
  }
  return text;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::int64_t integer_property(const Properties& properties, std::string_view key, const std::string& path) {
  const auto place = properties.find(key);
  if (place == properties.end()) throw Error(ErrorCode::damaged, path + ": there is no \"" + std::string(key) + "\"");
  const auto value = parse_integer(place->second);
  if (!value) {
    throw Error(ErrorCode::damaged, path + ": \"" + std::string(key) + "\" is not an integer: \"" + place->second + "\"");
  }
  return *value;
}

}  // namespace partlog::format

// Text files of key=value lines (Java properties as Kafka uses them: '#' comments, blank lines, no escapes needed by our own
// keys): store.properties, topic.properties, recovery-point, offset files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace partlog::format {

// Keys in the order of the alphabet. A key may occur once.
using Properties = std::map<std::string, std::string, std::less<>>;

// Error(damaged) naming `path` and the line for what is not key=value, and for a key that occurs twice.
Properties parse_properties(std::string_view text, const std::string& path);
std::string format_properties(const Properties& properties);

// A decimal integer that is the whole text, in range; nullopt otherwise.
std::optional<std::int64_t> parse_integer(std::string_view text);

// A property that must be there and be an integer: Error(damaged) otherwise.
std::int64_t integer_property(const Properties& properties, std::string_view key, const std::string& path);

}  // namespace partlog::format

#include "format/checkpoint.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <random>

#include "format/properties.h"
#include "format/text_lines.h"
#include "partlog/error.h"

namespace partlog::format {

namespace {

constexpr std::size_t uuid_text_size = 22;
constexpr std::string_view base64_url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string_view required_line(TextLines& lines, const char* what) {
  std::string_view line;
  if (!lines.next(line)) lines.damaged(std::string("the file ends before ") + what);
  return line;
}

void require_end(TextLines& lines) {
  std::string_view line;
  while (lines.next(line)) {
    if (!line.empty()) lines.damaged("more lines than there should be");
  }
}

std::int64_t required_integer(const TextLines& lines, std::string_view text, std::int64_t min, std::int64_t max) {
  const auto value = parse_integer(text);
  if (!value || *value < min || *value > max) lines.damaged("not a number in range: \"" + std::string(text) + "\"");
  return *value;
}

constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

// The first word of a line, taken off together with the blank behind it.
std::string_view take_word(std::string_view& line) {
  const std::size_t size = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, size);
  line.remove_prefix(std::min(size + 1, line.size()));
  return word;
}

EpochStart parse_epoch_start(const TextLines& lines, std::string_view line) {
  const std::string_view epoch = take_word(line);
  return {static_cast<std::int32_t>(required_integer(lines, epoch, 0, int32_max)),
          Offset{required_integer(lines, line, 0, int64_max)}};
}

bool is_uuid_text(std::string_view text) {
  return text.size() == uuid_text_size && text.find_first_not_of(base64_url) == std::string_view::npos;
}

std::string base64_url_text(const std::array<std::uint8_t, 16>& bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const std::uint8_t byte : bytes) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) text += base64_url[(bits >> (held - 6)) & 63];
  }
  text += base64_url[(bits << (6 - held)) & 63];
  return text;
}

}  // namespace

std::vector<EpochStart> parse_leader_epochs(std::string_view text, const std::string& path) {
  TextLines lines(text, path);
  required_integer(lines, required_line(lines, "the version"), 0, 0);
  const std::int64_t count = required_integer(lines, required_line(lines, "the number of epochs"), 0, int32_max);
  std::vector<EpochStart> epochs;
  for (std::int64_t i = 0; i < count; ++i) {
    const EpochStart next = parse_epoch_start(lines, required_line(lines, "the last epoch"));
    if (!epochs.empty() && (next.epoch <= epochs.back().epoch || next.start < epochs.back().start)) {
      lines.damaged("epochs and their start offsets do not rise");
    }
    epochs.push_back(next);
  }
  require_end(lines);
  return epochs;
}

std::string format_leader_epochs(const std::vector<EpochStart>& epochs) {
  std::string text = "0\n" + std::to_string(epochs.size()) + "\n";
  for (const EpochStart& e : epochs) text += std::to_string(e.epoch) + " " + std::to_string(e.start.value) + "\n";
  return text;
}

std::string parse_partition_metadata(std::string_view text, const std::string& path) {
  TextLines lines(text, path);
  if (required_line(lines, "the version") != "version: 0") lines.damaged("not \"version: 0\"");
  constexpr std::string_view prefix = "topic_id: ";
  const std::string_view line = required_line(lines, "the topic id");
  if (!line.starts_with(prefix) || !is_uuid_text(line.substr(prefix.size()))) lines.damaged("not a topic id");
  require_end(lines);
  return std::string(line.substr(prefix.size()));
}

std::string format_partition_metadata(std::string_view topic_id) {
  return "version: 0\ntopic_id: " + std::string(topic_id) + "\n";
}

std::string random_uuid() {
  std::random_device source;
  std::array<std::uint8_t, 16> bytes;
  std::string text;
  do {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(source());
    bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | 0x40);  // version 4 (random), as Java's UUID.randomUUID
    bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80);
    text = base64_url_text(bytes);
  } while (text.front() == '-');
  return text;
}

Offset parse_log_start_offset(std::string_view text, const std::string& path) {
  TextLines lines(text, path);
  const Offset start{required_integer(lines, required_line(lines, "the offset"), 0, int64_max)};
  require_end(lines);
  return start;
}

std::string format_log_start_offset(Offset start) { return std::to_string(start.value) + "\n"; }

RecoveryPoint parse_recovery_point(std::string_view text, const std::string& path) {
  const Properties properties = parse_properties(text, path);
  const auto number = [&](std::string_view key) {
    const std::int64_t value = integer_property(properties, key, path);
    if (value < 0) throw Error(ErrorCode::damaged, path + ": \"" + std::string(key) + "\" is negative");
    return value;
  };
  const auto boot_id = properties.find("boot_id");
  if (boot_id == properties.end()) throw Error(ErrorCode::damaged, path + ": there is no \"boot_id\"");
  return {Offset{number("offset")}, Offset{number("segment")}, Position{number("position")}, boot_id->second};
}

bool is_part_of_recovery_point(std::string_view text) {
  constexpr std::string_view begin = "boot_id=";
  const auto lines = [](std::string_view of) { return std::count(of.begin(), of.end(), '\n'); };
  if (text.empty() || text.front() == '\0') return true;
  return text.substr(0, begin.size()) == begin.substr(0, text.size()) && lines(text) < lines(format_recovery_point({}));
}

std::string format_recovery_point(const RecoveryPoint& point) {
  return format_properties({{"offset", std::to_string(point.offset.value)},
                            {"segment", std::to_string(point.segment.value)},
                            {"position", std::to_string(point.position.value)},
                            {"boot_id", point.boot_id}});
}

std::vector<Cut> parse_cuts(std::string_view text, const std::string& path) {
  std::vector<Cut> cuts;
  TextLines lines(text, path);
  std::string_view line;
  while (lines.next(line)) {
    const Offset offset{required_integer(lines, take_word(line), 0, int64_max)};
    const std::string_view boot_id = take_word(line);
    if (boot_id.empty() || line.empty() || line.find(' ') != std::string_view::npos) lines.damaged("not \"offset boot_id time\"");
    cuts.push_back({offset, std::string(boot_id), std::string(line)});
  }
  return cuts;
}

std::vector<LostOffsets> parse_lost_offsets(std::string_view text, const std::string& path) {
  std::vector<LostOffsets> ranges;
  TextLines lines(text, path);
  std::string_view line;
  while (lines.next(line)) {
    const Offset first{required_integer(lines, take_word(line), 0, int64_max)};
    const Offset last{required_integer(lines, take_word(line), first.value, int64_max)};
    if (line.empty() || line.find(' ') != std::string_view::npos) lines.damaged("not \"first last time\"");
    ranges.push_back({first, last, std::string(line)});
  }
  return ranges;
}

std::string format_lost_offsets(const LostOffsets& lost) {
  return std::to_string(lost.first.value) + " " + std::to_string(lost.last.value) + " " + lost.time + "\n";
}

std::string format_cut(const Cut& cut) { return std::to_string(cut.offset.value) + " " + cut.boot_id + " " + cut.time + "\n"; }

}  // namespace partlog::format

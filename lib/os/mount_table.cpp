#include "os/mount_table.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace partlog::os {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Spaces, tabs, newlines and backslashes in a path are written as \ooo.
std::string unescape(std::string_view text) {
  auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7' ? text[at] - '0' : -1; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 && digit(i + 3) >= 0) {
      plain += static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool lies_on(std::string_view path, std::string_view mount_point) {
  if (mount_point == "/") return path.starts_with('/');
  return path.starts_with(mount_point) && (path.size() == mount_point.size() || path[mount_point.size()] == '/');
}

struct Mount {
  std::string_view device;
  std::string point;
  std::string_view options;
  std::string_view super_options;
};

std::optional<Mount> parse(std::string_view line) {
  enum Field : std::size_t { device = 2, point = 4, options = 5, first_optional = 6 };
  enum FieldBehindDash : std::ptrdiff_t { super_options = 3 };
  auto fields = split(line, ' ');
  if (fields.size() <= first_optional) return std::nullopt;
  auto dash = std::find(fields.begin() + first_optional, fields.end(), "-");
  if (fields.end() - dash <= super_options) return std::nullopt;
  return Mount{fields[device], unescape(fields[point]), fields[options], dash[super_options]};
}

std::string fault_in(std::string_view options) {
  static constexpr std::array faults =
      std::to_array<std::string_view>({"nolock", "local_lock=posix", "local_lock=all", "nobrl", "localflock", "localflocks"});
  for (auto option : split(options, ','))
    if (std::find(faults.begin(), faults.end(), option) != faults.end()) return "mounted with " + std::string(option);
  return {};
}

}  // namespace

std::string lock_fault_of(std::string_view mountinfo, std::string_view device, std::string_view path) {
  std::optional<Mount> best;
  std::size_t best_length = 0;
  for (auto line : split(mountinfo, '\n')) {
    auto mount = parse(line);
    if (!mount || mount->device != device) continue;
    // Not above the path, but of the same device: nearly always with the same options.
    std::size_t length = lies_on(path, mount->point) ? mount->point.size() : 0;
    if (best && length < best_length) continue;
    best_length = length;
    best = std::move(mount);
  }
  if (!best) return {};
  auto fault = fault_in(best->options);
  return fault.empty() ? fault_in(best->super_options) : fault;
}

}  // namespace partlog::os

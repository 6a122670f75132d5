#include "offsets_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "messages.h"
#include "partlog/error.h"
#include "partlog/store.h"
#include "text.h"

namespace partlog::cmd {
namespace {

constexpr std::size_t largest_file = 64 << 20;

std::string read_all(int descriptor, const std::string& file) {
  std::string text;
  char block[64 << 10];
  for (;;) {
    ssize_t size = ::read(descriptor, block, sizeof block);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw Error(ErrorCode::io, "read " + file + ": " + system_message(errno), errno);
    if (size == 0) return text;
    text.append(block, static_cast<std::size_t>(size));
    if (text.size() > largest_file) throw Error(ErrorCode::refused, file + ": larger than 64 MiB, which no list of positions is");
  }
}

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw Error(ErrorCode::io, "write " + path + ": " + system_message(error), error);
}

int open_for_writing(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (descriptor < 0) fail_to_write(path, errno);
  return descriptor;
}

// Takes one field and the comma behind it off the front of a line; nullopt: quotes that do not match. `more` becomes whether
// there was a comma.
std::optional<std::string> take_field(std::string_view& line, bool& more) {
  std::string field;
  if (line.starts_with('"')) {
    std::size_t at = 1;
    for (;; ++at) {
      if (at == line.size()) return std::nullopt;
      if (line[at] == '"' && at + 1 < line.size() && line[at + 1] == '"') {
        ++at;
      } else if (line[at] == '"') {
        break;
      }
      field += line[at];
    }
    line.remove_prefix(at + 1);
    if (!line.empty() && !line.starts_with(',')) return std::nullopt;
  } else {
    field = line.substr(0, line.find(','));
    line.remove_prefix(field.size());
  }
  more = !line.empty();
  if (more) line.remove_prefix(1);
  return field;
}

std::optional<std::vector<std::string>> split_fields(std::string_view line) {
  std::vector<std::string> fields;
  for (bool more = true; more;) {
    auto field = take_field(line, more);
    if (!field || fields.size() == 4) return std::nullopt;
    fields.push_back(std::move(*field));
  }
  return fields;
}

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t most) {
  auto value = parse_decimal(text);
  return value && *value >= 0 && *value <= most && !text.starts_with('-') ? value : std::nullopt;
}

// One row; `group` becomes empty where the line has none.
OffsetRow parse_row(std::string_view line, const std::string& where, std::string& group) {
  auto fault = [&](const std::string& what) { return Error(ErrorCode::refused, where + ": " + what); };
  auto fields = split_fields(line);
  if (!fields || fields->size() < 3) throw fault("not topic,partition,offset, nor these with the group first");
  std::size_t first = fields->size() - 3;
  group = first == 1 ? (*fields)[0] : "";
  if (first == 1 && group.empty()) throw fault("the group is empty");
  const auto& topic = (*fields)[first];
  try {
    require_valid_topic_name(topic);
  } catch (const Error& error) {
    throw fault(error.what());
  }
  auto partition = whole_number((*fields)[first + 1], std::numeric_limits<int>::max());
  if (!partition) throw fault("'" + (*fields)[first + 1] + "' is no partition");
  auto offset = whole_number((*fields)[first + 2], std::numeric_limits<std::int64_t>::max());
  if (!offset) throw fault("'" + (*fields)[first + 2] + "' is no offset");
  return {topic, static_cast<int>(*partition), Offset{*offset}, where};
}

}  // namespace

std::vector<OffsetRow> parse_offsets(std::string_view text, const std::string& file, std::string_view group) {
  std::vector<OffsetRow> rows;
  std::map<std::pair<std::string, int>, std::size_t> lines;
  std::size_t others = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    std::string its_group;
    OffsetRow row = parse_row(line, file + ':' + std::to_string(number), its_group);
    if (!its_group.empty() && its_group != group) {
      ++others;
      continue;
    }
    auto [earlier, is_new] = lines.try_emplace({row.topic, row.partition}, number);
    if (!is_new) {
      throw Error(ErrorCode::refused, row.where + ": partition " + std::to_string(row.partition) + " of topic " + row.topic +
                                          " stands in line " + std::to_string(earlier->second) + " already");
    }
    rows.push_back(std::move(row));
  }
  if (others > 0) notice(file + ": " + counted(others, "row") + " of other groups skipped");
  if (rows.empty()) notice(file + ": no row for group " + std::string(group));
  return rows;
}

std::vector<OffsetRow> read_offsets_file(const std::string& path, std::string_view group) {
  if (path == "-") return parse_offsets(read_all(STDIN_FILENO, "standard input"), "standard input", group);
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw Error(ErrorCode::io, "open " + path + ": " + system_message(errno), errno);
  std::string text;
  try {
    text = read_all(descriptor, path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
  return parse_offsets(text, path, group);
}

void append_offset_row(std::string& out, std::string_view topic, int partition, Offset offset) {
  out += topic;
  out += ',';
  append_number(out, partition);
  out += ',';
  append_number(out, offset.value);
  out += '\n';
}

void require_writable_file(const std::string& path) { ::close(open_for_writing(path, O_CREAT)); }

void write_offsets_file(const std::string& path, std::string_view text) {
  struct stat status{};
  const bool regular = ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  const std::string target = regular ? path + ".tmp" : path;
  const int descriptor = open_for_writing(target, regular ? O_CREAT | O_TRUNC : 0);
  while (!text.empty()) {
    const ssize_t size = ::write(descriptor, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      const int error = errno;
      ::close(descriptor);
      fail_to_write(target, error);
    }
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  if (::close(descriptor) != 0) fail_to_write(target, errno);
  if (regular && ::rename(target.c_str(), path.c_str()) != 0) fail_to_write(path, errno);
}

}  // namespace partlog::cmd

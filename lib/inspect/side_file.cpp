#include "partlog/side_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "format/file_names.h"
#include "format/index_entry.h"
#include "format/properties.h"
#include "os/directory.h"
#include "os/file.h"

namespace partlog {

namespace {

constexpr std::size_t piece_size = 64 << 10;

std::string_view name_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view without_mark(std::string_view name) {
  for (const std::string_view mark : {".deleted", ".cleaned", ".swap", ".tmp"}) {
    if (name.ends_with(mark)) return name.substr(0, name.size() - mark.size());
  }
  return name;
}

// "…/offsets/TOPIC/PARTITION"
bool is_offset_file(std::string_view path) {
  const auto name = name_of(path);
  if (!format::parse_partition_name(name) || name.size() == path.size()) return false;
  path.remove_suffix(name.size() + 1);
  const auto topic = name_of(path);
  if (topic.size() == path.size()) return false;
  path.remove_suffix(topic.size() + 1);
  return name_of(path) == "offsets";
}

Offset base_of(const std::string& path, std::string_view suffix) {
  return format::parse_segment_file_name(without_mark(name_of(path)), suffix).value_or(Offset{0});
}

// The size without the zeros at the end, rounded up to whole entries where there are so many bytes.
std::int64_t size_without_padding(const os::File& file, std::int64_t size, std::int64_t entry) {
  std::vector<char> bytes(piece_size);
  auto end = size;
  while (end > 0) {
    const auto start = std::max<std::int64_t>(0, end - static_cast<std::int64_t>(piece_size));
    const auto got = file.read_at(std::span(bytes).first(static_cast<std::size_t>(end - start)), start);
    auto used = got;
    while (used > 0 && bytes[used - 1] == 0) --used;
    if (used > 0) {
      end = start + static_cast<std::int64_t>(used);
      return std::min(size, (end + entry - 1) / entry * entry);
    }
    end = start;
  }
  return 0;
}

// Entries of one size, one after the other, from `from` on.
template <class Take>
FileFaultOrNone each_entry(const os::File& file, std::int64_t from, std::int64_t end, std::size_t entry, Take take) {
  std::vector<char> bytes(piece_size / entry * entry);
  auto at = from;
  while (at < end) {
    const auto want = std::min(bytes.size(), static_cast<std::size_t>(end - at));
    const auto got = file.read_at(std::span(bytes).first(want), at);
    for (std::size_t i = 0; i + entry <= got; i += entry) take(bytes.data() + i);
    const auto whole = static_cast<std::int64_t>(got / entry * entry);
    at += whole;
    if (got < bytes.size() && at < end) return FileFault{{at}, "the file ends inside an entry"};
  }
  return std::nullopt;
}

template <class Take>
FileFaultOrNone each_index_entry(const std::string& path, std::size_t entry, bool may_be_padded, Take take) {
  const auto file = os::File::open(path, os::File::Mode::read);
  const auto size = file.size();
  const auto end = may_be_padded ? size_without_padding(file, size, static_cast<std::int64_t>(entry)) : size;
  return each_entry(file, 0, end, entry, take);
}

std::string whole_text(const std::string& path) {
  auto text = os::read_file(path);
  if (!text) throw Error(ErrorCode::not_found, "open " + path + ": No such file or directory");
  return std::move(*text);
}

// Lines with the positions where they start.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  bool next(std::string_view& line) {
    start_ = next_;
    if (next_ >= text_.size()) return false;
    const auto end = std::min(text_.find('\n', next_), text_.size());
    line = text_.substr(next_, end - next_);
    next_ = end + 1;
    return true;
  }
  Position position() const { return {static_cast<std::int64_t>(start_)}; }

 private:
  std::string_view text_;
  std::size_t start_ = 0;
  std::size_t next_ = 0;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

std::optional<std::int64_t> integer(std::string_view text, std::int64_t least, std::int64_t most) {
  const auto value = format::parse_integer(text);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

// A version, which is 0, the number of lines, and so many lines (Kafka's CheckpointFile); `take` says what is wrong with one.
template <class Take>
FileFaultOrNone each_checkpoint_line(const std::string& path, std::size_t words, Take take) {
  const auto text = whole_text(path);
  Lines lines(text);
  std::string_view line;
  if (text.empty()) return std::nullopt;  // as a broker makes it
  if (!lines.next(line) || line != "0") return FileFault{lines.position(), "the version is not 0"};
  std::optional<std::int64_t> count;
  if (lines.next(line)) count = integer(line, 0, int32_max);
  if (!count) return FileFault{lines.position(), "the number of lines is missing"};
  std::int64_t seen = 0;
  while (lines.next(line)) {
    if (line.empty()) continue;
    const auto parts = words_of(line);
    const char* fault = parts.size() == words ? take(parts) : "the line has not the words that it should have";
    if (fault != nullptr) return FileFault{lines.position(), fault};
    ++seen;
  }
  if (seen != *count) return FileFault{lines.position(), "the number of lines is not the one given"};
  return std::nullopt;
}

// Kafka's ProducerStateManager, file format 1: int16 version, uint32 CRC-32C of what follows it, int32 number of entries.
namespace snapshot {
constexpr std::size_t crc = 2;
constexpr std::size_t count = crc + 4;
constexpr std::size_t entries = count + 4;
constexpr std::size_t producer_id = 0;
constexpr std::size_t epoch = producer_id + 8;
constexpr std::size_t last_sequence = epoch + 2;
constexpr std::size_t last_offset = last_sequence + 4;
constexpr std::size_t offset_delta = last_offset + 8;
constexpr std::size_t timestamp = offset_delta + 4;
constexpr std::size_t coordinator_epoch = timestamp + 8;
constexpr std::size_t transaction_first_offset = coordinator_epoch + 4;
constexpr std::size_t entry_size = transaction_first_offset + 8;
}  // namespace snapshot

ProducerEntry producer_entry(const char* bytes) {
  ProducerEntry entry;
  entry.producer_id = load_big_endian<std::int64_t>(bytes + snapshot::producer_id);
  entry.producer_epoch = load_big_endian<std::int16_t>(bytes + snapshot::epoch);
  entry.last_sequence = load_big_endian<std::int32_t>(bytes + snapshot::last_sequence);
  entry.last_offset = {load_big_endian<std::int64_t>(bytes + snapshot::last_offset)};
  entry.offset_delta = load_big_endian<std::int32_t>(bytes + snapshot::offset_delta);
  entry.last_timestamp = {load_big_endian<std::int64_t>(bytes + snapshot::timestamp)};
  entry.coordinator_epoch = load_big_endian<std::int32_t>(bytes + snapshot::coordinator_epoch);
  entry.current_transaction_first_offset = {load_big_endian<std::int64_t>(bytes + snapshot::transaction_first_offset)};
  return entry;
}

// Kafka's AbortedTxn.
namespace transaction {
constexpr std::size_t version = 0;
constexpr std::size_t producer_id = version + 2;
constexpr std::size_t first_offset = producer_id + 8;
constexpr std::size_t last_offset = first_offset + 8;
constexpr std::size_t last_stable_offset = last_offset + 8;
constexpr std::size_t entry_size = last_stable_offset + 8;
}  // namespace transaction

std::uint32_t checksum_of(const os::File& file, std::int64_t from, std::int64_t end) {
  std::vector<char> bytes(piece_size);
  std::uint32_t sum = 0;
  while (from < end) {
    const auto got = file.read_at(std::span(bytes).first(std::min(bytes.size(), static_cast<std::size_t>(end - from))), from);
    if (got == 0) break;
    sum = crc32c_extend(sum, std::span<const char>(bytes).first(got));
    from += static_cast<std::int64_t>(got);
  }
  return sum;
}

}  // namespace

FileKind file_kind(std::string_view path) {
  const auto name = without_mark(name_of(path));
  constexpr std::array<std::pair<std::string_view, FileKind>, 16> names = {{
      {"leader-epoch-checkpoint", FileKind::leader_epochs},
      {"recovery-point-offset-checkpoint", FileKind::offsets},
      {"replication-offset-checkpoint", FileKind::offsets},
      {"log-start-offset-checkpoint", FileKind::offsets},
      {"cleaner-offset-checkpoint", FileKind::offsets},
      {"partition.metadata", FileKind::metadata},
      {"log-start-offset", FileKind::number},
      {"recovery-point", FileKind::properties},
      {"cuts", FileKind::lines},
      {"lost-offsets", FileKind::lines},
      {"quorum-state", FileKind::json},
  }};
  for (const auto& [known, kind] : names) {
    if (!known.empty() && name == known) return kind;
  }
  constexpr std::array<std::pair<std::string_view, FileKind>, 7> endings = {{
      {".log", FileKind::batches},
      {".checkpoint", FileKind::batches},
      {".index", FileKind::offset_index},
      {".timeindex", FileKind::time_index},
      {".txnindex", FileKind::transaction_index},
      {".snapshot", FileKind::producer_snapshot},
      {".properties", FileKind::properties},
  }};
  for (const auto& [ending, kind] : endings) {
    if (name.ends_with(ending)) return kind;
  }
  return is_offset_file(path) ? FileKind::properties : FileKind::unknown;
}

FileFaultOrNone read_offset_index(const std::string& path, const std::function<void(const OffsetEntry&)>& take) {
  const auto base = base_of(path, format::index_suffix);
  return each_index_entry(path, format::offset_index_entry_size, true, [&](const char* bytes) {
    const auto entry = format::decode_offset_index_entry(bytes, base);
    take({entry.offset, entry.position});
  });
}

FileFaultOrNone read_time_index(const std::string& path, const std::function<void(const TimeEntry&)>& take) {
  const auto base = base_of(path, format::time_index_suffix);
  return each_index_entry(path, format::time_index_entry_size, true, [&](const char* bytes) {
    const auto entry = format::decode_time_index_entry(bytes, base);
    take({entry.timestamp, entry.offset});
  });
}

FileFaultOrNone read_transaction_index(const std::string& path, const std::function<void(const TransactionEntry&)>& take) {
  return each_index_entry(path, transaction::entry_size, false, [&](const char* bytes) {
    TransactionEntry entry;
    entry.version = load_big_endian<std::int16_t>(bytes + transaction::version);
    entry.producer_id = load_big_endian<std::int64_t>(bytes + transaction::producer_id);
    entry.first_offset = {load_big_endian<std::int64_t>(bytes + transaction::first_offset)};
    entry.last_offset = {load_big_endian<std::int64_t>(bytes + transaction::last_offset)};
    entry.last_stable_offset = {load_big_endian<std::int64_t>(bytes + transaction::last_stable_offset)};
    take(entry);
  });
}

FileFaultOrNone read_producer_snapshot(const std::string& path, const std::function<void(const ProducerEntry&)>& take) {
  const auto file = os::File::open(path, os::File::Mode::read);
  const auto size = file.size();
  std::array<char, snapshot::entries> head{};
  if (file.read_at(head, 0) < head.size()) return FileFault{{0}, "the file ends inside its header"};
  const auto version = load_big_endian<std::int16_t>(head.data());
  if (version != 1) return FileFault{{0}, "the version is not 1"};
  const auto crc = load_big_endian<std::uint32_t>(head.data() + snapshot::crc);
  const auto count = load_big_endian<std::int32_t>(head.data() + snapshot::count);
  const bool is_right = checksum_of(file, snapshot::count, size) == crc;
  constexpr auto start = static_cast<std::int64_t>(snapshot::entries);
  const auto there = (size - start) / static_cast<std::int64_t>(snapshot::entry_size);
  const auto entries = std::clamp<std::int64_t>(count, 0, there);
  const auto end = start + entries * static_cast<std::int64_t>(snapshot::entry_size);
  auto fault = each_entry(file, start, end, snapshot::entry_size, [&](const char* bytes) { take(producer_entry(bytes)); });
  if (!is_right) return FileFault{{static_cast<std::int64_t>(snapshot::crc)}, "the checksum is wrong"};
  if (!fault && (count != entries || end != size)) fault = FileFault{{end}, "the number of entries is not the one given"};
  return fault;
}

FileFaultOrNone read_leader_epochs(const std::string& path, const std::function<void(const EpochEntry&)>& take) {
  return each_checkpoint_line(path, 2, [&](const std::vector<std::string_view>& words) -> const char* {
    const auto epoch = integer(words[0], 0, int32_max);
    const auto start = integer(words[1], 0, int64_max);
    if (!epoch || !start) return "epoch and offset are no numbers";
    take({static_cast<std::int32_t>(*epoch), {*start}});
    return nullptr;
  });
}

FileFaultOrNone read_offset_checkpoint(const std::string& path, const std::function<void(const OffsetOfPartition&)>& take) {
  return each_checkpoint_line(path, 3, [&](const std::vector<std::string_view>& words) -> const char* {
    const auto partition = integer(words[1], 0, int32_max);
    const auto offset = integer(words[2], 0, int64_max);
    if (!partition || !offset) return "partition and offset are no numbers";
    take({std::string(words[0]), static_cast<std::int32_t>(*partition), {*offset}});
    return nullptr;
  });
}

FileFaultOrNone read_pairs(const std::string& path,
                           const std::function<void(std::string_view name, std::string_view value)>& take) {
  const auto kind = file_kind(path);
  const auto text = whole_text(path);
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (kind == FileKind::number || kind == FileKind::json || kind == FileKind::lines) {
      take({}, line);
      if (kind == FileKind::number && !integer(line, 0, int64_max)) return FileFault{lines.position(), "this is no offset"};
      continue;
    }
    if (line.empty() || line.starts_with('#')) continue;
    const auto sign = line.find(kind == FileKind::metadata ? ':' : '=');
    if (sign == std::string_view::npos) return FileFault{lines.position(), "the line is no pair of name and value"};
    auto value = line.substr(sign + 1);
    while (kind == FileKind::metadata && value.starts_with(' ')) value.remove_prefix(1);
    take(line.substr(0, sign), value);
  }
  return std::nullopt;
}

}  // namespace partlog

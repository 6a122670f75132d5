#include "fuzz/targets.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "address.h"
#include "exit_status.h"
#include "format/batch_header.h"
#include "format/checkpoint.h"
#include "format/codec.h"
#include "format/offset_file.h"
#include "format/properties.h"
#include "json_input.h"
#include "messages.h"
#include "offsets_file.h"
#include "partlog/coordinator_record.h"
#include "partlog/error.h"
#include "partlog/partition_check.h"
#include "partlog/partition_repair.h"
#include "partlog/producer.h"
#include "partlog/reader.h"
#include "partlog/segment_file.h"
#include "partlog/side_file.h"
#include "partlog/store.h"
#include "record_input.h"
#include "text.h"
#include "times.h"

namespace partlog::fuzz {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t limit = 1 << 20;  // of what bytes may unpack to

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

template <class Work>
void may_be_refused(Work work) {
  try {
    work();
  } catch (const Error&) {
  } catch (const cmd::UsageError&) {
  }
}

// Takes the bytes apart from the front.
class Input {
 public:
  explicit Input(std::span<const char> bytes) : bytes_(bytes) {}
  std::uint8_t byte() { return bytes_.empty() ? 0 : static_cast<std::uint8_t>(take(1)[0]); }
  // A piece that begins with its length.
  std::span<const char> piece() {
    const std::size_t size = byte();
    return take(std::min(size, bytes_.size()));
  }
  std::span<const char> rest() { return take(bytes_.size()); }

 private:
  std::span<const char> take(std::size_t size) {
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::span<const char> bytes_;
};

std::string_view view(std::span<const char> bytes) { return {bytes.data(), bytes.size()}; }

// A store with one topic of one partition, for the life of the process.
struct Place {
  Place() {
    const auto pattern = (fs::temp_directory_path() / "partlog-fuzz-XXXXXX").string();
    std::vector<char> name(pattern.begin(), pattern.end());
    name.push_back('\0');
    require(::mkdtemp(name.data()) != nullptr, "no temporary directory");
    directory = name.data();
    store = Store::open_or_create(directory / "store");
    store->create_topic("t", 1, TopicConfig());
    partition = partition_directory(store->topic("t").directory, 0);
    for (const auto& file : fs::directory_iterator(partition)) made.emplace_back(file.path(), contents(file.path()));
  }
  ~Place() {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static void write(const fs::path& path, std::span<const char> bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  // As the partition was made.
  void reset() const {
    for (const auto& file : fs::directory_iterator(partition)) fs::remove_all(file.path());
    for (const auto& [path, bytes] : made) write(path, bytes);
  }

  fs::path directory;
  std::optional<Store> store;
  fs::path partition;
  std::vector<std::pair<fs::path, std::string>> made;
};

const Place& place() {
  static const Place it;
  return it;
}

// Gives batches the checksum that their bytes have: no mutation would ever find it.
void fix_checksums(std::vector<char>& log) {
  for (std::size_t at = 0; at < log.size();) {
    const auto left = std::span(log).subspan(at);
    const auto header = format::read_whole_header(left);
    if (!header || format::header_fault(*header) != nullptr || header->size() > static_cast<std::int64_t>(left.size())) return;
    const auto size = static_cast<std::size_t>(header->size());
    const auto start = format::checksum_start(*header);
    const auto sum = format::extend_checksum(*header, 0, left.first(size).subspan(start));
    for (std::size_t i = 0; i < 4; ++i) left[start - 4 + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += size;
  }
}

void look_into(const fs::path& log, bool expect_any_offsets) {
  InspectOptions options;
  options.expect_any_offsets = expect_any_offsets;
  options.window_bytes = 4096;
  options.decompression_limit = limit;
  SegmentFile file(log, options);
  for (const std::int64_t offset : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{5}, INT64_MAX}) {
    file.seek_offset({offset});
    file.seek_position({offset});
    std::int64_t position = -1;
    while (file.next() != SegmentFile::Step::end) {
      require(file.finding().position.value > position || position == -1, "an inspection does not get on");
      position = file.finding().position.value;
      while (!file.records().empty()) {
      }
    }
  }
}

// How many records there are; nullopt: there is damage in front of some.
std::optional<std::size_t> read_all(const Store& store) {
  ReaderOptions options;
  options.window_bytes = 4096;
  options.decompression_limit = limit;
  PartitionReader reader(store, store.topic("t"), 0, options);
  std::optional<std::size_t> all_read;
  may_be_refused([&] {
    std::size_t count = 0;
    reader.seek(reader.start());
    std::optional<Offset> last;
    for (auto records = reader.read(); !records.empty(); records = reader.read()) {
      for (const auto& record : records) {
        require(!last || *last < record.offset, "offsets do not rise");
        last = record.offset;
        Header header;
        for (HeaderCursor cursor(record.headers); cursor.next(header);) {
        }
        ++count;
      }
    }
    all_read = count;
  });
  may_be_refused([&] { reader.end(); });
  may_be_refused([&] { reader.offset_at({1000}); });
  may_be_refused([&] { reader.max_timestamp(); });
  return all_read;
}

// Past damage everything else is read, of transactions what was committed.
void read_past_damage(const Store& store, Isolation isolation) {
  ReaderOptions options;
  options.window_bytes = 4096;
  options.decompression_limit = limit;
  options.isolation = isolation;
  options.pass_over = [](const LostRange& range) { require(range.first <= range.next, "a range that ends before it begins"); };
  PartitionReader reader(store, store.topic("t"), 0, options);
  try {
    std::optional<Offset> last;
    for (auto records = reader.read(); !records.empty(); records = reader.read()) {
      for (const auto& record : records) {
        require(!last || *last < record.offset, "offsets do not rise past damage");
        last = record.offset;
      }
    }
  } catch (const Error& error) {
    require(error.code() != ErrorCode::damaged, "damage ends what should go on past it");
  }
}

void append_one(const Store& store) {
  const auto before = read_all(store);
  bool is_stored = false;
  may_be_refused([&] {
    ProducerOptions options;
    options.sync = SyncPolicy::none;
    Producer producer(store, store.topic("t"), options);
    Record record;
    record.value = Bytes("x");
    producer.append({&record, 1});
    producer.flush();
    is_stored = true;
  });
  if (before && is_stored) require(read_all(store) == *before + 1, "what was stored is not there, or something else has gone");
}

// Whatever stood there: afterwards it is sound.
void repair(const Place& here) {
  RepairOptions options;
  options.check.alone = true;
  options.check.inspect.decompression_limit = limit;
  bool is_done = false;
  may_be_refused([&] { is_done = repair_partition(here.partition, options, [](const CheckFinding&) {}).left.empty(); });
  if (!is_done) return;
  const auto result = check_partition(here.partition, options.check, [](const CheckFinding&) {});
  require(result.verdict != Verdict::damaged, "what was repaired is damaged");
  require(read_all(*here.store).has_value(), "what was repaired cannot be read");
}

// Of a partition: its indexes, and its segment.
void segment(std::span<const char> bytes) {
  Input input(bytes);
  const auto flags = input.byte();
  const auto index = input.piece();
  const auto time_index = input.piece();
  const auto rest = input.rest();
  std::vector<char> log(rest.begin(), rest.end());
  if ((flags & 1) != 0) fix_checksums(log);
  const auto& here = place();
  here.reset();
  const auto base = (here.partition / "00000000000000000000").string();
  Place::write(base + ".log", log);
  Place::write(base + ".index", index);
  Place::write(base + ".timeindex", time_index);
  for (const bool expect_any_offsets : {false, true}) look_into(base + ".log", expect_any_offsets);
  read_all(*here.store);
  read_past_damage(*here.store, Isolation::uncommitted);
  read_past_damage(*here.store, Isolation::committed);
  if ((flags & 4) != 0) repair(here);
  if ((flags & 2) != 0) append_one(*here.store);
}

void codecs(std::span<const char> bytes) {
  Input input(bytes);
  const auto codec = static_cast<Compression>(1 + input.byte() % 4);
  const auto data = input.rest();
  std::vector<char> out;
  if (format::decompress(codec, data, limit, out).empty()) require(out.size() <= limit, "more was unpacked than allowed");
  format::decompress(codec, data, limit, out, format::Lz4HeaderChecksum::ignored);
  RawBuffer packed;
  const std::span<const char> pieces[] = {data};
  const auto size = format::compress(codec, {}, pieces, packed, 0);
  require(format::decompress(codec, {packed.data(), size}, limit, out).empty() && view(out) == view(data),
          "what was packed is not what comes out");
}

void side_files(std::span<const char> bytes) {
  Input input(bytes);
  const auto kind = input.byte() % 6;
  const auto path = (place().directory / "00000000000000000005").string();
  Place::write(path, input.rest());
  may_be_refused([&] {
    switch (kind) {
      case 0:
        read_offset_index(path, [](const auto&) {});
        break;
      case 1:
        read_time_index(path, [](const auto&) {});
        break;
      case 2:
        read_transaction_index(path, [](const auto&) {});
        break;
      case 3:
        read_producer_snapshot(path, [](const auto&) {});
        break;
      case 4:
        read_leader_epochs(path, [](const auto&) {});
        break;
      default:
        read_offset_checkpoint(path, [](const auto&) {});
    }
    read_pairs(path, [](auto, auto) {});
  });
}

void coordinator_records(std::span<const char> bytes) {
  Input input(bytes);
  const auto topic = input.byte() % 2 == 0 ? CoordinatorTopic::consumer_offsets : CoordinatorTopic::transaction_state;
  const Bytes key(view(input.piece()));
  const Bytes value(view(input.rest()));
  std::string json;
  decode_coordinator_key(topic, key, json);
  require(cmd::is_utf8(json), "JSON that is not UTF-8");
  json.clear();
  decode_coordinator_value(topic, key, value, json);
  require(cmd::is_utf8(json), "JSON that is not UTF-8");
}

void text_files(std::span<const char> bytes) {
  const auto text = view(bytes);
  const std::string path = "f";
  may_be_refused([&] { format::parse_properties(text, path); });
  may_be_refused([&] { format::parse_leader_epochs(text, path); });
  may_be_refused([&] { format::parse_partition_metadata(text, path); });
  may_be_refused([&] { format::parse_log_start_offset(text, path); });
  may_be_refused([&] { format::parse_recovery_point(text, path); });
  may_be_refused([&] { format::parse_cuts(text, path); });
  may_be_refused([&] { cmd::parse_offsets(text, path, "g"); });
  may_be_refused([&] {
    const auto file = format::parse_offset_file(text, path);
    require(format::parse_offset_file(format::format_offset_file(file), path) == file, "an offset file is not what was written");
  });
}

void words(std::span<const char> bytes) {
  const std::string text(view(bytes));
  may_be_refused([&] { cmd::parse_address(text); });
  may_be_refused([&] { cmd::parse_time(text, "--since", {1'700'000'000'000}, {}); });
  cmd::parse_duration(text);
  cmd::parse_decimal(text);
}

void json(std::span<const char> bytes) {
  cmd::JsonRecord record;
  std::string line(bytes.begin(), bytes.end());
  cmd::parse_json_record(line, record);
}

// Whatever pieces the bytes come in, the records are the same.
void record_input(std::span<const char> bytes) {
  Input input(bytes);
  cmd::InputFormat format;
  const auto flags = input.byte();
  const auto step = input.byte() + std::size_t{1};
  if ((flags & 1) != 0) format.key_delimiter = ":";
  format.delimiter = std::string((flags & 2) != 0 ? "ab" : "\n");
  format.lenient = (flags & 4) != 0;
  format.skip_empty = (flags & 8) != 0;
  format.empty_is_null = (flags & 16) != 0;
  format.crlf = (flags & 34) == 32;
  format.limit = 100;
  const auto text = input.rest();
  const auto records = [&](std::size_t piece) {
    std::vector<std::string> found;
    cmd::RecordInput in(format);
    in.begin_file("f");
    may_be_refused([&] {
      for (std::size_t at = 0;;) {
        const auto now = text.subspan(at, std::min({piece, text.size() - at, in.room().size()}));
        if (!now.empty()) std::memcpy(in.room().data(), now.data(), now.size());
        if (now.empty()) in.end_file();
        in.filled(now.size());
        at += now.size();
        for (auto some = in.next(); !some.empty(); some = in.next()) {
          for (const auto& r : some) {
            found.push_back((r.key.is_null() ? "-" : "k" + std::string(r.key.view())) + "|" +
                            (r.value.is_null() ? "-" : "v" + std::string(r.value.view())));
          }
        }
        if (now.empty()) break;
      }
    });
    return found;
  };
  require(records(step) == records(limit), "records depend on the pieces that the input comes in");
}

constexpr std::array all = {
    Target{"segment", segment},
    Target{"codecs", codecs},
    Target{"side_files", side_files},
    Target{"coordinator", coordinator_records},
    Target{"text_files", text_files},
    Target{"words", words},
    Target{"json", json},
    Target{"record_input", record_input},
};

}  // namespace

std::span<const Target> targets() {
  cmd::set_verbosity(true, false);
  return all;
}

}  // namespace partlog::fuzz

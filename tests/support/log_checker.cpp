#include "support/log_checker.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

namespace partlog::test {

namespace {

std::uint32_t table_crc32c(const std::string& bytes, std::size_t from, std::size_t to) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      std::uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
      entries[i] = c;
    }
    return entries;
  }();
  std::uint32_t crc = ~0u;
  for (auto i = from; i < to; ++i) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(bytes[i])) & 255];
  return ~crc;
}

// Reads fields one after the other; throws behind the end.
class FieldReader {
 public:
  FieldReader(const std::string& bytes, std::size_t at, std::size_t end) : bytes_(bytes), at_(at), end_(end) {}

  std::int64_t big_endian(int size) {
    std::uint64_t v = 0;
    for (int i = 0; i < size; ++i) v = v << 8 | byte();
    const int unused = 64 - 8 * size;
    return static_cast<std::int64_t>(v << unused) >> unused;
  }
  std::int64_t varint() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const std::uint64_t b = byte();
      v |= (b & 127) << shift;
      if (b < 128) return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
    }
    throw std::out_of_range("a varint does not end");
  }
  std::optional<std::string> bytes() {
    const auto size = varint();
    if (size < 0) return std::nullopt;
    if (static_cast<std::size_t>(size) > end_ - at_) throw std::out_of_range("a length leads out of the batch");
    at_ += static_cast<std::size_t>(size);
    return bytes_.substr(at_ - static_cast<std::size_t>(size), static_cast<std::size_t>(size));
  }
  std::size_t at() const { return at_; }

 private:
  std::uint8_t byte() {
    if (at_ == end_) throw std::out_of_range("read behind the end");
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  const std::string& bytes_;
  std::size_t at_;
  std::size_t end_;
};

class Checker {
 public:
  explicit Checker(const LogRules& rules) : rules_(rules) {}

  CheckedLog check(const std::string& directory) {
    std::map<std::int64_t, std::string> logs;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".log") logs[std::stoll(entry.path().stem())] = entry.path();
    }
    for (const auto& [base, path] : logs) {
      path_ = path;
      if (rules_.dense && !log_.segments.empty() && base != expected_)
        fault("begins at " + number(base) + ", the segment before ends at " + number(expected_));
      expected_ = base;
      check_segment(base, base == logs.rbegin()->first);
    }
    return std::move(log_);
  }

 private:
  static std::string number(std::int64_t n) { return std::to_string(n); }
  void fault(const std::string& text) { log_.faults.push_back(path_ + ": " + text); }

  void check_segment(std::int64_t base, bool is_last) {
    const auto bytes = contents_of(path_);
    CheckedSegment segment{path_, base, std::ssize(bytes), {}};
    for (std::size_t at = 0; at < bytes.size();) {
      const auto batch = check_batch(bytes, at);
      if (!batch) break;
      at += static_cast<std::size_t>(batch->size);
      segment.batches.push_back(*batch);
    }
    if (rules_.indexes) check_indexes(segment, !is_last || rules_.closed_last);
    log_.segments.push_back(std::move(segment));
  }

  std::optional<CheckedBatch> check_batch(const std::string& bytes, std::size_t at) {
    const auto where = "position " + std::to_string(at) + ": ";
    if (bytes.size() - at < 61) {
      fault(where + "no whole header");
      return std::nullopt;
    }
    FieldReader header(bytes, at, bytes.size());
    CheckedBatch batch;
    batch.position = static_cast<std::int64_t>(at);
    batch.base_offset = header.big_endian(8);
    batch.size = header.big_endian(4) + 12;
    header.big_endian(4);  // leader epoch
    const auto magic = header.big_endian(1);
    if (magic != 2 || batch.size < 61 || batch.size > std::ssize(bytes) - batch.position) {
      fault(where + "magic " + number(magic) + ", size " + number(batch.size));
      return std::nullopt;
    }
    const auto end = at + static_cast<std::size_t>(batch.size);
    const auto crc = static_cast<std::uint32_t>(header.big_endian(4));
    if (crc != table_crc32c(bytes, header.at(), end)) {
      fault(where + "checksum");
      return std::nullopt;
    }
    batch.attributes = static_cast<int>(header.big_endian(2));
    batch.last_offset = batch.base_offset + header.big_endian(4);
    const auto base_timestamp = header.big_endian(8);
    batch.max_timestamp = header.big_endian(8);
    header.big_endian(8);  // producer id, epoch and sequence
    header.big_endian(2);
    header.big_endian(4);
    const auto count = header.big_endian(4);
    if (batch.base_offset < expected_ || (rules_.dense && batch.base_offset != expected_))
      fault(where + "base offset " + number(batch.base_offset) + " where " + number(expected_) + " is due");
    if (rules_.dense && count != batch.last_offset - batch.base_offset + 1) fault(where + "record count " + number(count));
    expected_ = batch.last_offset + 1;
    if ((batch.attributes & 7) == 0)
      check_records(bytes, FieldReader(bytes, header.at(), end), end, base_timestamp, count, batch);
    return batch;
  }

  void check_records(const std::string&, FieldReader reader, std::size_t end, std::int64_t base_timestamp, std::int64_t count,
                     CheckedBatch& batch) {
    const auto where = "position " + number(batch.position) + " record ";
    std::int64_t largest = -1;
    try {
      for (std::int64_t n = 0; n < count; ++n) {
        const auto size = reader.varint();
        const auto begin = reader.at();
        reader.big_endian(1);
        CheckedRecord record;
        record.timestamp = base_timestamp + reader.varint();
        if ((batch.attributes & 8) != 0) record.timestamp = batch.max_timestamp;
        record.offset = batch.base_offset + reader.varint();
        record.key = reader.bytes();
        record.value = reader.bytes();
        for (auto headers = reader.varint(); headers > 0; --headers) {
          reader.bytes();
          reader.bytes();
        }
        if (std::cmp_not_equal(reader.at() - begin, size)) fault(where + number(n) + ": length");
        if (rules_.dense && record.offset != batch.base_offset + n) fault(where + number(n) + ": offset delta");
        largest = std::max(largest, record.timestamp);
        batch.records.push_back(std::move(record));
      }
    } catch (const std::out_of_range& error) {
      fault(where + std::to_string(batch.records.size()) + ": " + error.what());
      return;
    }
    if (reader.at() != end) fault(where + "bytes are left over");
    if (rules_.dense && largest != batch.max_timestamp) fault(where + "max timestamp");
  }

  // org.apache.kafka.storage.internals.log.LogSegment: append, onBecomeInactiveSegment.
  void check_indexes(const CheckedSegment& segment, bool closed) {
    std::string index, time_index;
    std::int64_t since_entry = 0, largest = -1, largest_offset = segment.base, last_time = -1;
    const auto put = [](std::string& to, std::int64_t v, int size) {
      for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) to += static_cast<char>(v >> shift);
    };
    const auto put_time = [&] {
      if (largest <= last_time) return;
      put(time_index, largest, 8);
      put(time_index, largest_offset - segment.base, 4);
      last_time = largest;
    };
    for (const auto& batch : segment.batches) {
      if (batch.max_timestamp > largest) {
        largest = batch.max_timestamp;
        largest_offset = batch.last_offset;
      }
      if (since_entry > rules_.index_interval_bytes) {
        put(index, batch.last_offset - segment.base, 4);
        put(index, batch.position, 4);
        put_time();
        since_entry = 0;
      }
      since_entry += batch.size;
    }
    if (closed) put_time();
    compare(std::filesystem::path(segment.path).replace_extension(".index"), index, 8);
    compare(std::filesystem::path(segment.path).replace_extension(".timeindex"), time_index, 12);
  }

  void compare(const std::string& path, const std::string& due, std::int64_t entry_size) {
    path_ = path;
    if (!std::filesystem::exists(path)) return fault("missing");
    const auto found = contents_of(path);
    if (found == due) return;
    const auto differs = std::mismatch(found.begin(), found.end(), due.begin(), due.end()).first - found.begin();
    fault(number(std::ssize(found)) + " bytes, due are " + number(std::ssize(due)) + "; entry " + number(differs / entry_size) +
          " differs");
  }

  const LogRules rules_;
  CheckedLog log_;
  std::string path_;
  std::int64_t expected_ = 0;
};

}  // namespace

std::int64_t CheckedLog::end() const {
  if (segments.empty()) return 0;
  const auto& last = segments.back();
  return last.batches.empty() ? last.base : last.batches.back().last_offset + 1;
}

std::vector<CheckedRecord> CheckedLog::records() const {
  std::vector<CheckedRecord> all;
  for (const auto& segment : segments) {
    for (const auto& batch : segment.batches) all.insert(all.end(), batch.records.begin(), batch.records.end());
  }
  return all;
}

CheckedLog check_log(const std::string& partition_directory, const LogRules& rules) {
  return Checker(rules).check(partition_directory);
}

std::string contents_of(const std::string& path) {
  std::string contents(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(contents.data(), std::ssize(contents));
  return contents;
}

void overwrite(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), std::ssize(contents));
  if (!file.flush()) throw std::runtime_error("write " + path);
}

}  // namespace partlog::test

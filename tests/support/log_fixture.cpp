#include "support/log_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace partlog::test {

namespace fs = std::filesystem;

namespace {

std::optional<std::string> copy_of(Bytes bytes) {
  return bytes.is_null() ? std::nullopt : std::optional(std::string(bytes.view()));
}

}  // namespace

int scaled(int count) {
  const char* given = std::getenv("PARTLOG_TEST_SCALE");
  const double scale = given != nullptr ? std::strtod(given, nullptr) : 1;
  return std::max(1, static_cast<int>(count * scale));
}

std::vector<std::string> ReadResult::values() const {
  std::vector<std::string> all;
  for (const auto& record : records) all.push_back(record.value.value_or("(null)"));
  return all;
}

ReadResult read_on(PartitionReader& reader, std::optional<Offset> limit) {
  ReadResult result;
  try {
    for (auto records = reader.read(limit); !records.empty(); records = reader.read(limit)) {
      for (const auto& r : records)
        result.records.push_back({r.offset.value, r.timestamp.value, copy_of(r.key), copy_of(r.value)});
    }
  } catch (const Error& error) {
    result.error = error.code();
    result.message = error.what();
  }
  return result;
}

ReadResult read_all(const Store& store, const Topic& topic, int partition, ReaderOptions options) {
  PartitionReader reader(store, topic, partition, options);
  reader.seek(reader.start());
  return read_on(reader);
}

std::map<std::string, std::string> snapshot(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) files[entry.path().filename()] = contents_of(entry.path());
  return files;
}

void restart_host(const std::string& partition_directory) {
  for (const auto* name : {"/recovery-point", "/cuts"}) {
    const auto path = partition_directory + name;
    if (!fs::exists(path)) continue;
    auto text = contents_of(path);
    const auto& now = os::boot_id();
    for (auto at = text.find(now); at != std::string::npos; at = text.find(now)) text.replace(at, now.size(), "earlier-boot");
    overwrite(path, text);
  }
}

TestProducer::TestProducer(const Store& store, const Topic& topic, ProducerOptions options) {
  options.notice = [this](const std::string& line) { notices.push_back(line); };
  options.acknowledged = [this](const Acknowledgement& a) { acknowledgements.push_back(a); };
  producer = std::make_unique<Producer>(store, topic, std::move(options));
}

void TestProducer::append(const std::string& value, std::int64_t timestamp) { append_batch({value}, timestamp); }

void TestProducer::append_batch(const std::vector<std::string>& values, std::int64_t timestamp) {
  std::vector<Record> records;
  for (const auto& value : values) {
    Record record;
    record.value = Bytes(value);
    record.timestamp = {timestamp};
    records.push_back(record);
  }
  producer->append(records);
  producer->flush();
}

LogTest::LogTest()
    : directory_(std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/dev/shm"),
      store_(Store::open_or_create(directory_.path("store"))) {}

void LogTest::TearDown() {
  if (!check_at_end_ || HasFailure()) return;
  for (const auto& name : store_.topic_names()) {
    const auto topic = store_.topic(name);
    for (int p = 0; p < topic.partitions; ++p) checked(topic, p);
  }
}

Topic LogTest::make_topic(const Configs& configs, int partitions, const std::string& name) {
  TopicConfig config;
  for (const auto& [key, value] : configs) config.set(key, value);
  store_.create_topic(name, partitions, config);
  return store_.topic(name);
}

std::string LogTest::partition_directory(const Topic& topic, int partition) const {
  return store_.directory() + "/topics/" + topic.name + "/" + std::to_string(partition);
}

std::string LogTest::segment_path(const Topic& topic, std::int64_t base, const std::string& suffix, int partition) const {
  const auto digits = std::to_string(base);
  return partition_directory(topic, partition) + "/" + std::string(20 - digits.size(), '0') + digits + suffix;
}

CheckedLog LogTest::checked(const Topic& topic, int partition) {
  auto rules = rules_;
  rules.index_interval_bytes = topic.config.index_interval_bytes();
  auto log = check_log(partition_directory(topic, partition), rules);
  for (const auto& fault : log.faults) ADD_FAILURE() << fault;
  return log;
}

}  // namespace partlog::test

// `partlog produce`
#include <unistd.h>

#include <exception>
#include <new>

#include "filter.h"
#include "input_pump.h"
#include "messages.h"
#include "partlog/reader.h"
#include "signals.h"
#include "text.h"
#include "times.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

struct Codec {
  std::string_view name;
  Compression compression;
  int least_level;  // above the greatest: the codec has none
  int greatest_level;
};

constexpr Codec codecs[] = {
    {"none", Compression::none, 1, 0}, {"uncompressed", Compression::none, 1, 0},  // as compression.type calls it
    {"gzip", Compression::gzip, 1, 9}, {"snappy", Compression::snappy, 1, 0},
    {"lz4", Compression::lz4, 1, 17},  {"zstd", Compression::zstd, -131072, 22}};

// `5` is milliseconds; any duration will do.
std::chrono::milliseconds parse_linger(const std::string& text) {
  auto ms = parse_decimal(text);
  auto duration = ms && *ms >= 0 ? std::optional(std::chrono::milliseconds(*ms)) : parse_duration(text);
  if (!duration || *duration > std::chrono::hours(24)) {
    throw UsageError("--linger needs milliseconds or a duration, at most a day, not '" + text + "'");
  }
  return *duration;
}

class Produce : public Command {
 public:
  void declare(OptionSet& options) override;
  void validate(const OptionSet& options) override;
  int run(const Globals& globals) override;

 private:
  void declare_input(OptionSet& options);
  void declare_storing(OptionSet& options);
  void validate_input();
  void validate_storing();
  void parse_compression(const std::string& text);
  Topic open_topic(const Globals& globals, std::optional<Store>& store) const;
  void require_partition_of_new_topic() const;
  std::size_t record_limit(const Topic& topic) const;
  int feed(const Store& store, const Topic& topic, const InputFiles& files);
  static void summarize(const Producer& producer, const RecordInput& input, bool all, bool nothing_left, SyncPolicy sync);

  std::vector<std::string> operands_;
  InputFormat format_;
  ProducerOptions storing_;
  std::optional<std::int64_t> partition_, count_, skip_, batch_bytes_;
  std::optional<std::string> delimiter_, timestamp_, compression_, sync_, acks_;
  std::vector<std::string> headers_;
  TimeZone zone_;
  bool null_delimiter_ = false;
  bool lines_ = false;
  bool file_as_record_ = false;
  bool create_ = false;
  bool report_ = false;
};

void Produce::declare(OptionSet& options) {
  options.operands(operands_, "topic", 1);
  declare_input(options);
  declare_storing(options);
  options.refuse("-n,--dry-run",
                 "produce has no --dry-run; -c N stops after N records, and consume --tail N shows the last ones");
  options.conflict("--json-lines", {"--key-delimiter", "--delimiter", "--null-delimiter", "--null", "--null-marker", "--crlf",
                                    "--lenient", "--file-as-record"});
  options.conflict("--file-as-record", {"--delimiter", "--null-delimiter", "--crlf", "-l"});
  options.conflict("--delimiter", "--null-delimiter");
  options.conflict("--null", "--null-marker");
  options.conflict("--partition", "--keep-partition");
  options.require("--lenient", {"--key-delimiter"});
  options.require("--keep-partition", {"--json-lines"});
  options.require("--local", {"--timestamp"});
}

void Produce::declare_input(OptionSet& options) {
  options.text("-k,--key", "KEY", format_.key, "the key of records that come without one");
  options.escaped("-K,--key-delimiter", "DELIM", format_.key_delimiter,
                  "what stands before the first DELIM in a record is its key");
  options.flag("--lenient", format_.lenient, "with -K: a record without DELIM has no key, and is no error");
  options.escaped("-D,--delimiter", "DELIM", delimiter_, "what ends a record (default: newline)");
  options.flag("-0,--null-delimiter", null_delimiter_, "a NUL byte ends a record");
  options.flag("--crlf", format_.crlf, "drop one CR before the newline");
  options.flag("--skip-empty", format_.skip_empty, "pass over blank lines; they do not count");
  options.list("-H,--header", "NAME[=VALUE]", headers_, "add a header (without = a null one); may be repeated");
  options.flag("-Z,--null", format_.empty_is_null, "an empty value, and an empty key before DELIM, is null");
  options.escaped("--null-marker", "TEXT", format_.null_marker, "a value or key that reads TEXT is null");
  options.flag("-J,--json-lines", format_.json, "read one JSON object a line, as consume -J and kcat -J write them");
  options.flag("--keep-partition", format_.keep_partition, "with -J: store each record in the partition that it names");
  options.text("--timestamp", "TIME", timestamp_, "the timestamp of records that come without one (default: now)");
  options.flag("--local", zone_.local, "a time without zone is local time, not UTC");
  options.number("-c,--count", "N", count_, "stop after N records");
  options.number("--skip", "N", skip_, "pass over the first N records of the input");
  options.flag("--file-as-record", file_as_record_, "each file is one record");
  options.flag("-l", lines_, "accepted, since kcat needs it: files are split into records");
}

void Produce::declare_storing(OptionSet& options) {
  options.number("-p,--partition", "N", partition_, "store everything in partition N (default: by key, else in turn)", 0,
                 std::numeric_limits<std::int32_t>::max());
  options.text("-z,--compression", "CODEC[:LEVEL]", compression_, "none, gzip, snappy, lz4 or zstd");
  options.flag("--create", create_, "make the store and the topic where they are missing");
  options.text("--sync", "WHEN", sync_,
               "end (default): all is durable before status 0; batch: before each acknowledgement; none");
  options.text("--acks", "WHO", acks_, "all (default) or leader: whose copy counts; the same without replicas");
  options.add("--linger", "MS", "store a record at most this long after it came in (default 5)",
              [this](const std::string& value) { storing_.linger = parse_linger(value); });
  options.number("--batch-size", "BYTES", batch_bytes_, "aim at batches of this size", 1,
                 std::numeric_limits<std::int32_t>::max());
  options.flag("--report", report_,
               "print a line for each batch once it is safe: topic, partition, first and last offset, and how many records and "
               "bytes of the input are stored");
}

void Produce::validate(const OptionSet&) {
  validate_input();
  validate_storing();
}

void Produce::validate_input() {
  require_valid_topic_name(operands_[0]);
  if (delimiter_) format_.delimiter = *delimiter_;
  if (null_delimiter_) format_.delimiter = std::string(1, '\0');
  if (format_.delimiter.empty()) throw UsageError("--delimiter cannot be empty (see --file-as-record)");
  if (file_as_record_) format_.delimiter.clear();
  if (format_.key_delimiter && format_.key_delimiter->empty()) throw UsageError("--key-delimiter cannot be empty");
  if (format_.crlf && format_.delimiter != "\n") throw UsageError("--crlf goes with newline as the delimiter only");
  for (const auto& header : headers_) format_.headers.push_back(parse_header(header));
  if (timestamp_) {
    format_.timestamp = parse_time(*timestamp_, "--timestamp", now(), zone_);
    if (format_.timestamp < Timestamp{0}) throw UsageError("--timestamp lies before 1970");
  }
  if (count_) format_.count = static_cast<std::uint64_t>(*count_);
  if (skip_) format_.skip = static_cast<std::uint64_t>(*skip_);
}

void Produce::validate_storing() {
  if (partition_) storing_.partition = static_cast<int>(*partition_);
  if (compression_) parse_compression(*compression_);
  if (batch_bytes_) storing_.batch_bytes = static_cast<std::size_t>(*batch_bytes_);
  if (sync_ == "batch") {
    storing_.sync = SyncPolicy::batch;
  } else if (sync_ == "none") {
    storing_.sync = SyncPolicy::none;
  } else if (sync_ && sync_ != "end") {
    throw UsageError("--sync is end, batch or none, not '" + *sync_ + "'");
  }
  if (acks_ && acks_ != "all" && acks_ != "leader") {
    std::string_view hint = acks_ == "-1"  ? " (Kafka's -1 is all)"
                            : acks_ == "1" ? " (Kafka's 1 is leader)"
                            : acks_ == "0" ? " (nothing is sent without waiting; leader and --sync none wait least)"
                                           : "";
    throw UsageError("--acks is all or leader, not '" + *acks_ + "'" + std::string(hint));
  }
}

void Produce::parse_compression(const std::string& text) {
  std::string name = text.substr(0, text.find(':'));
  for (const auto& codec : codecs) {
    if (codec.name != name) continue;
    storing_.compression = codec.compression;
    if (name.size() == text.size()) return;
    auto level = parse_decimal(std::string_view(text).substr(name.size() + 1));
    if (codec.least_level > codec.greatest_level) throw UsageError("--compression: " + name + " has no levels");
    if (!level || *level < codec.least_level || *level > codec.greatest_level) {
      throw UsageError("--compression: levels of " + name + " are " + std::to_string(codec.least_level) + " to " +
                       std::to_string(codec.greatest_level));
    }
    storing_.compression_level = static_cast<int>(*level);
    return;
  }
  throw UsageError("--compression is none, gzip, snappy, lz4 or zstd, with :LEVEL behind it, not '" + text + "'");
}

int Produce::run(const Globals& globals) {
  catch_stop_signals();
  InputFiles files({operands_.begin() + 1, operands_.end()});
  storing_.lock_timeout = globals.lock_timeout;
  storing_.stop = &stop_requested();
  storing_.notice = notice;
  std::optional<Store> store;
  Topic topic = open_topic(globals, store);
  return feed(*store, topic, files);
}

// Opens the store and the topic; with --create it makes what is missing, once it is sure that the topic will do.
Topic Produce::open_topic(const Globals& globals, std::optional<Store>& store) const {
  const std::string directory = globals.store_directory();
  const std::string& name = operands_[0];
  try {
    store = Store::open(directory);
    if (!create_ || store->find_topic(name)) return store->topic(name);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    if (!create_) throw store ? Error(ErrorCode::not_found, error.what() + std::string(" (--create makes it)")) : error;
  }
  require_partition_of_new_topic();
  if (!store) store = Store::open_or_create(directory);
  try {
    store->create_topic(name, 1, TopicConfig());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::already_exists) throw;  // someone else was faster
  }
  return store->topic(name);
}

void Produce::require_partition_of_new_topic() const {
  if (partition_.value_or(0) == 0) return;
  throw UsageError("topic " + operands_[0] + " does not exist, and --create makes it with partition 0 only, not " +
                   std::to_string(*partition_) + " (see create-topic --partitions)");
}

// What ended the work, whatever it was: what is stored is told all the same.
template <class Work>
std::optional<Error> failure_of(Work work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::io, "out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorCode::io, error.what());
  }
}

// What mends a partition that takes no more records.
std::string way_out(const Error& failure, const Store& store, const Topic& topic) {
  const bool sync_failed = std::string_view(failure.what()).find("sync failed") != std::string_view::npos;
  if (failure.code() != ErrorCode::damaged && !sync_failed) return {};
  return "; " + command_for(store, "verify --repair " + topic.name) + " mends it";
}

// A compressed record may be larger than a batch may be, but not so large that readers would refuse to unpack it.
std::size_t Produce::record_limit(const Topic& topic) const {
  auto compression = topic.config.compression().value_or(storing_.compression.value_or(Compression::none));
  auto most = static_cast<std::size_t>(topic.config.max_message_bytes());
  return compression == Compression::none ? most : std::max(most, ReaderOptions().decompression_limit);
}

int Produce::feed(const Store& store, const Topic& topic, const InputFiles& files) {
  format_.limit = record_limit(topic);
  RecordInput input(std::move(format_));
  std::optional<Report> report;
  if (report_) {
    report.emplace(topic.name);
    storing_.acknowledged = [&](const Acknowledgement& a) { report->add(a, input.skipped()); };
  }
  auto print_report = [&] {
    if (report) report->print();
  };
  const SyncPolicy sync = storing_.sync;
  Producer producer(store, topic, std::move(storing_));
  InputPump pump(input, producer, sync, print_report);
  auto failure = failure_of([&] { pump.run(files); });
  const auto last_failure = failure_of([&] {
    if (!pump.producer_failed()) producer.sync();
    print_report();
  });
  if (!failure) failure = last_failure;
  // That a signal ended it the status says.
  if (failure && failure->code() != ErrorCode::interrupted) complain(failure->what() + way_out(*failure, store, topic));
  bool all = !failure && !stop_requested();
  summarize(producer, input, all, pump.nothing_left(), sync);
  if (failure && failure->code() == ErrorCode::fenced && !pump.nothing_left()) {
    complain("run it again, with --skip " + std::to_string(input.skipped().records + producer.progress().records) +
             " if the input is the same");
  }
  return all ? status_done : failure ? exit_status(failure->code()) : signal_status();
}

void Produce::summarize(const Producer& producer, const RecordInput& input, bool all, bool nothing_left, SyncPolicy sync) {
  std::string text = counted(producer.stored(), "record") + ", " + counted(producer.stored_bytes(), "byte") + " stored";
  if (all) return notice(text);
  if (sync != SyncPolicy::none && producer.stored() > 0 && !producer.durable()) text += ", not all of it on stable storage";
  if (!nothing_left) {
    text += "; input record " + std::to_string(input.skipped().records + producer.progress().records + 1) +
            " is the first that was not";
  }
  complain(text);
}

}  // namespace

const CommandEntry produce_command = {"produce", "TOPIC [FILE]...", "append records to a topic, one for each line of the input",
                                      make_command<Produce>};

}  // namespace partlog::cmd

// A host is paused beyond its lease in the middle of an append: its locks go to another one, which appends, and it goes on
// without knowing. Tried with the rules for network file systems on a local one, at every system call of the append.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "os/system.h"
#include "partlog/error.h"
#include "support/child_process.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

// Before the n-th call all locks are lost, and `meanwhile` happens. As with NFS, a segment that was open then cannot be changed
// or synced any more through that descriptor.
class LapsingSystem : public os::System {
 public:
  LapsingSystem(std::string lock, long nth, std::function<void()> meanwhile)
      : lock_(std::move(lock)), nth_(nth), meanwhile_(std::move(meanwhile)) {}
  bool lapsed() const { return calls_ >= nth_; }

  int open(const char* path, int flags, mode_t mode) override {
    step();
    const int fd = System::open(path, flags, mode);
    if (fd >= 0 && std::string_view(path).ends_with(".log")) segments_[fd] = path;
    return fd;
  }
  int close(int fd) override {
    step();
    segments_.erase(fd);
    lost_.erase(fd);
    return System::close(fd);
  }
  ssize_t pread(int fd, void* data, size_t size, off_t position) override {
    step();
    return System::pread(fd, data, size, position);
  }
  ssize_t pwrite(int fd, const void* data, size_t size, off_t position) override {
    step();
    return is_lost(fd) ? -1 : System::pwrite(fd, data, size, position);
  }
  int ftruncate(int fd, off_t size) override {
    step();
    return is_lost(fd) ? -1 : System::ftruncate(fd, size);
  }
  int fdatasync(int fd) override {
    step();
    return is_lost(fd) ? -1 : System::fdatasync(fd);
  }
  int fstat(int fd, struct stat* status) override {
    step();
    return System::fstat(fd, status);
  }
  int stat(const char* path, struct stat* status) override {
    step();
    return System::stat(path, status);
  }
  int rename(const char* from, const char* to) override {
    step();
    return System::rename(from, to);
  }

 private:
  void step() {
    if (++calls_ != nth_) return;
    lose(lock_);
    for (const auto& [fd, path] : segments_) {
      lose(path);
      lost_.insert(fd);
    }
    meanwhile_();
  }
  // Closing any descriptor of a file does that to a process's locks.
  static void lose(const std::string& path) { ::close(::open(path.c_str(), O_RDWR | O_CLOEXEC)); }
  bool is_lost(int fd) const {
    if (lost_.contains(fd)) errno = EIO;
    return lost_.contains(fd);
  }

  const std::string lock_;
  const long nth_;
  const std::function<void()> meanwhile_;
  long calls_ = 0;
  std::map<int, std::string> segments_;
  std::set<int> lost_;
};

struct Meanwhile {
  const char* name;
  int filled;         // bytes of the value before, in a segment of 600 bytes
  std::size_t tried;  // of the value whose append is held up
  std::size_t other;  // of the values that the other host appends
  int count;          // how many of them
};

class NetworkLogTest : public LogTest {
 protected:
  NetworkLogTest() {
    ::setenv("PARTLOG_FILESYSTEM", "network", 1);
    store_ = Store::open(store_.directory());
  }
  ~NetworkLogTest() override { ::unsetenv("PARTLOG_FILESYSTEM"); }
};

class LapsedLeaseTest : public NetworkLogTest, public ::testing::WithParamInterface<Meanwhile> {
 protected:
  void expect_said_so(const Error& error) {
    const std::string what = error.what();
    if (error.code() == ErrorCode::fenced) {
      EXPECT_NE(what.find("append.lock"), std::string::npos) << what;
      EXPECT_NE(what.find("another process or host appended meanwhile"), std::string::npos) << what;
      ++fenced_;
    } else {
      EXPECT_EQ(error.code(), ErrorCode::io) << what;
      EXPECT_NE(what.find("has this host lost its locks"), std::string::npos) << what;
    }
  }

  // Whether the held-up append went through, or false if it came to its end before the n-th call.
  bool try_at(long n) {
    const auto topic = make_topic({{"segment.bytes", "600"}, {"index.interval.bytes", "100"}}, 1, "t" + std::to_string(n));
    ChildProcess other([&](Line& line) {
      TestProducer producer(store_, topic);
      producer.append("before");
      line.send();
      line.receive();
      for (int i = 0; i < GetParam().count; ++i) producer.append(std::string(GetParam().other, 'o'));
      line.send();
      line.receive();
      producer.append("after");
      return 0;
    });
    other.line().receive();
    TestProducer held_up(store_, topic);
    held_up.append(std::string(static_cast<std::size_t>(GetParam().filled), 'f'));
    bool stored = true;
    const auto tried = std::string(GetParam().tried, 't');
    LapsingSystem system(partition_directory(topic) + "/append.lock", n, [&] {
      other.line().send();
      other.line().receive();
    });
    try {
      const os::ScopedSystem scoped(system);
      held_up.append(tried);
    } catch (const Error& error) {
      stored = false;
      expect_said_so(error);
    }
    if (!system.lapsed()) {
      leave_broken();  // the child has not finished
      return false;
    }
    const auto meanwhile = read_all(store_, topic);
    EXPECT_FALSE(meanwhile.error) << meanwhile.message;
    other.line().send();
    EXPECT_EQ(other.wait(), 0);
    TestProducer(store_, topic).append("last");
    expect_each_once(read_all(store_, topic), stored ? std::optional(tried) : std::nullopt);
    checked(topic);
    EXPECT_FALSE(std::filesystem::exists(partition_directory(topic) + "/cuts"));
    return true;
  }

  // In any order, and beside them at most what is in doubt.
  void expect_each_once(const ReadResult& read, const std::optional<std::string>& tried) {
    EXPECT_FALSE(read.error) << read.message;
    std::multiset<std::string> left;
    for (const auto& value : read.values()) left.insert(value);
    std::vector<std::string> expected{"before", std::string(static_cast<std::size_t>(GetParam().filled), 'f'), "after", "last"};
    expected.insert(expected.end(), static_cast<std::size_t>(GetParam().count), std::string(GetParam().other, 'o'));
    if (tried) expected.push_back(*tried);
    for (const auto& value : expected) {
      const auto found = left.find(value);
      ASSERT_NE(found, left.end()) << "missing: " << value.substr(0, 10);
      left.erase(found);
    }
    EXPECT_LE(left.size(), tried ? 0U : 1U);
  }

  int fenced_ = 0;
};

TEST_P(LapsedLeaseTest, IsToldAndCostsNothingThatWasStored) {
  long n = 1;
  for (; !HasFailure(); ++n) {
    SCOPED_TRACE("lapse before call " + std::to_string(n));
    if (!try_at(n)) break;
  }
  EXPECT_GT(n, 20);
  EXPECT_GT(fenced_, 0);
}

// A host that had lost the lock began a segment, and was lost itself before it could take that back.
TEST_F(NetworkLogTest, SegmentOfALostHostIsPassedOver) {
  const auto topic = make_topic();
  TestProducer(store_, topic).append_batch({"0", "1", "2", "3"});
  for (const auto* suffix : {".log", ".index", ".timeindex"}) overwrite(segment_path(topic, 2, suffix), "");
  TestProducer(store_, topic).append("4");
  const auto read = read_all(store_, topic);
  EXPECT_FALSE(read.error) << read.message;
  EXPECT_EQ(read.values(), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(checked(topic).segments.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Cases, LapsedLeaseTest,
                         ::testing::Values(Meanwhile{"neither_rolls", 10, 20, 30, 1}, Meanwhile{"both_roll", 300, 220, 230, 1},
                                           Meanwhile{"this_one_rolls", 300, 220, 20, 1},
                                           Meanwhile{"the_other_rolls", 300, 20, 220, 1},
                                           Meanwhile{"the_other_rolls_often", 300, 20, 400, 3}),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace partlog::test

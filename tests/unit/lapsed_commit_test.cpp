// A host is paused beyond its lease in the middle of a commit or a reset: its locks go to another one, which moves the position,
// and it goes on without knowing. Tried with the rules for network file systems on a local one, at every system call.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>

#include "format/file_names.h"
#include "group_consumer.h"
#include "partlog/error.h"
#include "support/child_process.h"
#include "support/faulty_system.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

constexpr Offset before{10}, held_up{12}, meanwhile{87};

enum class By { member, script, reset };

struct Case {
  const char* name;
  By held_up;
  By other;
  bool other_stays;  // as a member, which keeps its claim
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class LapsedCommitTest : public LogTest, public ::testing::WithParamInterface<Case> {
 protected:
  LapsedCommitTest() {
    ::setenv("PARTLOG_FILESYSTEM", "network", 1);
    store_ = Store::open(store_.directory());
    topic_.emplace(make_topic());
    TestProducer(store_, *topic_).append_batch(std::vector<std::string>(100, "x"));
  }
  ~LapsedCommitTest() override { ::unsetenv("PARTLOG_FILESYSTEM"); }

  static std::unique_ptr<Consumer> join(const Store& store, const Group& group, const Topic& topic) {
    auto consumer = std::make_unique<Consumer>(store, group.name(), std::vector{topic.name});
    return until({consumer.get()}, [&] { return !consumer->owned.empty(); }) ? std::move(consumer) : nullptr;
  }
  static void move(By by, const Store& store, const Group& group, const Topic& topic, Consumer* member, Offset to) {
    if (by == By::member) member->member.commit({topic.name, 0}, to, 0);
    if (by == By::script) group.commit(store, topic, 0, to);
    if (by == By::reset) GroupChange(group).reset(topic, 0, to);
  }

  // The other host's part: its locks are not those of this process.
  int be_other(const Group& group, Line& line) {
    line.send();
    line.receive();
    auto member = GetParam().other == By::member ? join(store_, group, *topic_) : nullptr;
    move(GetParam().other, store_, group, *topic_, member.get(), meanwhile);
    if (!GetParam().other_stays) member.reset();
    line.send();
    line.receive();
    return 0;
  }

  // Closing any descriptor of a file does that to a process's locks.
  static void lose_locks(const std::string& directory) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.path().extension() == ".lock") ::close(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    }
  }

  // False if it came to its end before the n-th call.
  bool try_at(long n) {
    const auto group = Group::open_or_create(store_, "g" + std::to_string(n));
    group.commit(store_, *topic_, 0, before);
    ChildProcess other([&](Line& line) { return be_other(group, line); });
    other.line().receive();
    auto member = GetParam().held_up == By::member ? join(store_, group, *topic_) : nullptr;
    FailingSystem lapsing;
    lapsing.before(n, [&] {
      lose_locks(format::group_path(store_.directory(), group.name()));
      other.line().send();
      other.line().receive();
    });
    try {
      const os::ScopedSystem scoped(lapsing);
      move(GetParam().held_up, store_, group, *topic_, member.get(), held_up);
    } catch (const Error& error) {
      const bool is_told =
          error.code() == ErrorCode::fenced || error.code() == ErrorCode::refused || error.code() == ErrorCode::busy;
      EXPECT_TRUE(is_told) << error.what();
      refused_ += error.code() == ErrorCode::fenced ? 1 : 0;
    }
    if (!lapsing.fired()) return false;
    const auto position = group.committed(topic_->name, 0);
    EXPECT_TRUE(position && position->offset == meanwhile) << (position ? position->offset.value : -1);
    const auto directory = format::topic_offsets_path(format::group_path(store_.directory(), group.name()), topic_->name);
    EXPECT_FALSE(std::filesystem::exists(directory + "/0.tmp"));
    other.line().send();
    EXPECT_EQ(other.wait(), 0);
    return true;
  }

  std::optional<Topic> topic_;
  int refused_ = 0;
};

TEST_P(LapsedCommitTest, ComesNeverAfterWhatOthersCommittedMeanwhile) {
  long n = 1;
  for (; !HasFailure(); ++n) {
    SCOPED_TRACE("lapse before call " + std::to_string(n));
    if (!try_at(n)) break;
  }
  EXPECT_GT(n, 10);
  EXPECT_GT(refused_, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, LapsedCommitTest,
                         ::testing::Values(Case{"member_beside_one_that_stays", By::member, By::member, true},
                                           Case{"member_beside_one_that_leaves", By::member, By::member, false},
                                           Case{"script_beside_a_script", By::script, By::script, false},
                                           Case{"script_beside_a_member", By::script, By::member, true},
                                           Case{"reset_beside_a_member", By::reset, By::member, true}),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace partlog::test

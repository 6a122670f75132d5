// What is done to topics by several at a time, and what those leave who are killed.
#include "partlog/store.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "os/file_lock.h"
#include "partlog/error.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

class StoreTest : public LogTest {
 protected:
  std::string in(const std::string& path) const { return store_.directory() + '/' + path; }
  void leave(const std::string& directory, bool with_lock) const {
    fs::create_directories(in(directory) + "/0");
    std::ofstream(in(directory) + "/0/some.log") << "bytes";
    if (with_lock) std::ofstream(in(directory) + "/topic.lock");
  }
};

TEST_F(StoreTest, ChangesOfSeveralAtATimeAreAllKept) {
  const auto topic = make_topic();
  const std::vector<std::string> names = {"segment.bytes", "max.message.bytes", "flush.messages", "index.interval.bytes"};
  for (int round = 1; round <= 10; ++round) {
    const auto value = std::to_string(1'000'000 + round);
    std::vector<std::thread> threads;
    for (const auto& name : names) {
      threads.emplace_back([&] { store_.alter_topic_config(topic, [&](TopicConfig& config) { config.set(name, value); }); });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& name : names) EXPECT_EQ(store_.topic(topic.name).config.get(name), value) << name;
  }
}

TEST_F(StoreTest, ATopicMadeAnewIsNeitherAlteredNorDeleted) {
  const auto old = make_topic();
  store_.delete_topic(old);
  store_.create_topic(old.name, 2, {});
  const auto id = store_.topic(old.name).id;
  EXPECT_THROW(store_.alter_topic_config(old, [](TopicConfig&) { ADD_FAILURE(); }), Error);
  EXPECT_THROW(store_.delete_topic(old), Error);
  EXPECT_EQ(store_.topic(old.name).id, id);
  EXPECT_EQ(store_.topic(old.name).partitions, 2);
}

TEST_F(StoreTest, WhatDeadProcessesLeftIsSweptAndNothingElse) {
  leave("trash/gone.1", false);
  leave("staging/dead.1", true);
  leave("staging/living.1", true);
  leave("staging/young.1", false);
  leave("staging/old.1", false);
  fs::last_write_time(in("staging/old.1"), fs::file_time_type::clock::now() - std::chrono::hours(24 * 365 * 40));
  const auto living = os::FileLock::open(in("staging/living.1/topic.lock")).lock();
  store_.create_topic("new", 1, {});
  EXPECT_FALSE(fs::exists(in("trash/gone.1")));
  EXPECT_FALSE(fs::exists(in("staging/dead.1")));
  EXPECT_TRUE(fs::exists(in("staging/living.1/0/some.log")));
  EXPECT_TRUE(fs::exists(in("staging/young.1/0/some.log")));
  EXPECT_FALSE(fs::exists(in("staging/old.1")));
  leave("trash/gone.2", false);
  store_.delete_topic(store_.topic("new"));
  EXPECT_TRUE(fs::is_empty(in("trash")));
}

}  // namespace
}  // namespace partlog::test

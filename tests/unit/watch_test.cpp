#include "os/watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>

#include "os/directory.h"
#include "support/child_process.h"
#include "support/temporary_directory.h"

namespace partlog::os {
namespace {

using namespace std::chrono_literals;
using test::TemporaryDirectory;

constexpr auto long_time = 30s;  // far longer than any of these tests may take

// Whether a wait ended by an event, not by its time-out.
bool ends(Watch& watch, std::chrono::milliseconds timeout = long_time, int wake = -1, int hangup = -1) {
  auto start = std::chrono::steady_clock::now();
  watch.wait(timeout, wake, hangup);
  return std::chrono::steady_clock::now() - start < timeout;
}

TEST(Watch, SeesEveryKindOfChange) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  Watch watch({directory.path()}, false, long_time);
  std::optional<File> file;
  const std::array<std::function<void()>, 5> changes = {
      [&] { file = File::open(path, File::Mode::create); }, [&] { file->write_at(std::string_view("a"), 0); },
      [&] { file->truncate(0); }, [&] { rename_path(path, path + "2"); }, [&] { remove_file(path + "2"); }};
  for (const auto& change : changes) {
    change();
    EXPECT_TRUE(ends(watch));
    EXPECT_FALSE(ends(watch, 1ms));  // reported once
  }
}

TEST(Watch, SeesAllItsDirectories) {
  TemporaryDirectory a, b;
  Watch watch({a.path(), b.path()}, false, long_time);
  replace_file(b.path("x"), "", false);
  EXPECT_TRUE(ends(watch));
  remove_tree(a.path());
  EXPECT_TRUE(ends(watch));
}

TEST(Watch, SeesAnotherProcess) {
  TemporaryDirectory directory;
  test::ChildProcess child([&](test::Line& line) {
    line.receive();
    replace_file(directory.path("x"), "", false);
    return 0;
  });
  Watch watch({directory.path()}, false, long_time);
  child.line().send();
  EXPECT_TRUE(ends(watch));
  EXPECT_EQ(child.wait(), 0);
}

TEST(Watch, IsWokenThroughADescriptor) {
  TemporaryDirectory directory;
  int ends_of_pipe[2];
  ASSERT_EQ(::pipe2(ends_of_pipe, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends_of_pipe[1], "x", 1), 1);
  Watch local({directory.path()}, false, long_time), network({directory.path()}, true, long_time);
  EXPECT_TRUE(ends(local, long_time, ends_of_pipe[0]));
  EXPECT_TRUE(ends(network, long_time, ends_of_pipe[0]));
  ::close(ends_of_pipe[0]);
  ::close(ends_of_pipe[1]);
}

TEST(Watch, NoticesThatTheReaderHasGone) {
  TemporaryDirectory directory;
  int ends_of_pipe[2];
  ASSERT_EQ(::pipe2(ends_of_pipe, O_CLOEXEC), 0);
  Watch local({directory.path()}, false, long_time), network({directory.path()}, true, long_time);
  EXPECT_FALSE(ends(local, 1ms, -1, ends_of_pipe[1]));
  ::close(ends_of_pipe[0]);
  EXPECT_TRUE(ends(local, long_time, -1, ends_of_pipe[1]));
  EXPECT_TRUE(ends(network, long_time, -1, ends_of_pipe[1]));
  ::close(ends_of_pipe[1]);
}

TEST(Watch, PollsOnANetwork) {
  TemporaryDirectory directory;
  Watch watch({directory.path()}, true, 1ms);
  EXPECT_TRUE(ends(watch));
}

TEST(Watch, PollsWithoutInotify) {
  TemporaryDirectory directory;
  Watch watch({directory.path(), directory.path("none")}, false, long_time);
  EXPECT_TRUE(ends(watch));
}

TEST(Watch, TakesAnyTimeout) {
  TemporaryDirectory directory;
  Watch watch({directory.path()}, false, long_time);
  watch.wait(-5ms);
  replace_file(directory.path("x"), "", false);
  watch.wait(std::chrono::milliseconds::max());
}

bool is_readable(const WatchDescriptor& watch, std::chrono::milliseconds timeout = 0ms) {
  pollfd descriptor = {watch.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, static_cast<int>(timeout.count())) == 1;
}

TEST(WatchDescriptor, IsReadableForChangesUntilTheyAreTaken) {
  TemporaryDirectory a, b;
  WatchDescriptor watch({a.path(), b.path()}, false);
  EXPECT_TRUE(watch.sees_changes());
  EXPECT_FALSE(is_readable(watch));
  EXPECT_FALSE(watch.take_changes());
  for (const auto* directory : {&a, &b, &a}) {
    replace_file(directory->path("x"), "", false);
    EXPECT_TRUE(is_readable(watch, long_time));
    EXPECT_TRUE(is_readable(watch));
    EXPECT_TRUE(watch.take_changes());
    EXPECT_FALSE(is_readable(watch));
    EXPECT_FALSE(watch.take_changes());
  }
  for (int i = 0; i < 2000; ++i) replace_file(a.path("x"), "", false);  // more than one read takes
  EXPECT_TRUE(watch.take_changes());
  EXPECT_FALSE(is_readable(watch));
}

TEST(WatchDescriptor, IsReadableWhenATimeHasCome) {
  TemporaryDirectory directory;
  for (const bool network : {false, true}) {
    WatchDescriptor watch({directory.path()}, network);
    EXPECT_EQ(watch.sees_changes(), !network);
    watch.wake_after(long_time);
    EXPECT_FALSE(is_readable(watch));
    for (const auto time : {std::chrono::microseconds(2000), std::chrono::microseconds(0), std::chrono::microseconds(-5)}) {
      watch.wake_after(time);
      EXPECT_TRUE(is_readable(watch, long_time));
      EXPECT_TRUE(is_readable(watch));  // until it is told the next time
      EXPECT_FALSE(watch.take_changes());
    }
    watch.wake_after(long_time);
    EXPECT_FALSE(is_readable(watch));
  }
}

TEST(WatchDescriptor, OnlyTheTimeCountsWhereNothingCanBeWatched) {
  TemporaryDirectory directory;
  WatchDescriptor network({directory.path()}, true), absent({directory.path("none")}, false);
  for (auto* watch : {&network, &absent}) {
    EXPECT_FALSE(watch->sees_changes());
    replace_file(directory.path("x"), "", false);
    EXPECT_FALSE(is_readable(*watch));
    EXPECT_FALSE(watch->take_changes());
    watch->wake_after(std::chrono::microseconds(1));
    EXPECT_TRUE(is_readable(*watch, long_time));
  }
}

}  // namespace
}  // namespace partlog::os

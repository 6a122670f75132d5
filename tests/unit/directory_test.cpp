#include "os/directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "os/clock.h"
#include "os/system.h"
#include "partlog/error.h"
#include "support/faulty_system.h"
#include "support/temporary_directory.h"

namespace partlog::os {
namespace {

using test::FailingSystem;
using test::TemporaryDirectory;

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::io;
}

std::vector<std::string> sorted_names(const std::string& path) {
  auto names = list_directory(path);
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(Directory, ListsNames) {
  TemporaryDirectory directory;
  EXPECT_EQ(list_directory(directory.path()), Names{});
  make_directory(directory.path("b"));
  replace_file(directory.path(".hidden"), "", false);
  EXPECT_EQ(sorted_names(directory.path()), (Names{".hidden", "b"}));
  EXPECT_EQ(code_of([&] { list_directory(directory.path("none")); }), ErrorCode::not_found);
}

TEST(Directory, MakesOneOrMany) {
  TemporaryDirectory directory;
  make_directory(directory.path("a"));
  EXPECT_EQ(code_of([&] { make_directory(directory.path("a")); }), ErrorCode::already_exists);
  EXPECT_EQ(code_of([&] { make_directory(directory.path("x/y")); }), ErrorCode::not_found);
  make_directories(directory.path("x//y/z/"));
  make_directories(directory.path("x/y/z"));
  EXPECT_TRUE(status_of(directory.path("x/y/z"))->is_directory);
  replace_file(directory.path("file"), "", false);
  EXPECT_EQ(code_of([&] { make_directories(directory.path("file")); }), ErrorCode::already_exists);
  EXPECT_EQ(code_of([&] { make_directories(directory.path("file/below")); }), ErrorCode::already_exists);
}

TEST(Directory, ManyThreadsMayMakeAndRemoveTheSameTree) {
  TemporaryDirectory directory;
  auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      make_directories(directory.path("a/b/c"));
      remove_tree(directory.path("a"));
    }
  };
  std::thread other(work);
  EXPECT_NO_THROW(work());
  other.join();
  EXPECT_FALSE(status_of(directory.path("a")));
}

TEST(Directory, RemovesTreesWithoutFollowingLinks) {
  TemporaryDirectory directory;
  make_directories(directory.path("keep"));
  replace_file(directory.path("keep/file"), "x", false);
  make_directories(directory.path("tree/sub"));
  replace_file(directory.path("tree/sub/file"), "x", false);
  ASSERT_EQ(::symlink(directory.path("keep").c_str(), directory.path("tree/link").c_str()), 0);
  remove_tree(directory.path("tree"));
  remove_tree(directory.path("tree"));
  EXPECT_EQ(list_directory(directory.path()), Names{"keep"});
  EXPECT_EQ(read_file(directory.path("keep/file")), "x");
  remove_tree(directory.path("keep/file"));
  EXPECT_EQ(list_directory(directory.path("keep")), Names{});
}

TEST(Directory, RemovesAFileOnce) {
  TemporaryDirectory directory;
  replace_file(directory.path("x"), "", false);
  EXPECT_TRUE(remove_file(directory.path("x")));
  EXPECT_FALSE(remove_file(directory.path("x")));
  EXPECT_EQ(code_of([&] { rename_path(directory.path("x"), directory.path("y")); }), ErrorCode::not_found);
}

TEST(Directory, ReadsWholeFilesUpToALimit) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  EXPECT_FALSE(read_file(path));
  replace_file(path, "", false);
  EXPECT_EQ(read_file(path), "");
  std::string text(10'000, 'x');
  replace_file(path, text, false);
  EXPECT_EQ(read_file(path), text);
  EXPECT_EQ(read_file(path, 10'000), text);
  EXPECT_EQ(code_of([&] { read_file(path, 9'999); }), ErrorCode::damaged);
  EXPECT_GT(read_file("/proc/self/mountinfo")->size(), 10U);  // says that its size is 0
}

TEST(Directory, ReadsAFileAgainThatAnotherHostReplaced) {
  TemporaryDirectory directory;
  replace_file(directory.path("x"), "new", false);
  FailingSystem faulty;
  faulty.fail(3, ESTALE);  // open, stat, read
  ScopedSystem scoped(faulty);
  EXPECT_EQ(read_file(directory.path("x")), "new");
  EXPECT_TRUE(faulty.fired());
}

// Whatever call fails, the file has the old contents or the new, and nothing lies about.
TEST(Directory, ReplacesAFileWholeOrNotAtAll) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  for (long nth = 1;; ++nth) {
    replace_file(path, "old", true);
    FailingSystem faulty;
    faulty.fail(nth, EIO);
    bool failed = false;
    try {
      ScopedSystem scoped(faulty);
      replace_file(path, "new", true);
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.system_error(), EIO);
    }
    auto contents = read_file(path);
    EXPECT_TRUE(contents == "new" || (failed && contents == "old")) << nth;
    EXPECT_EQ(list_directory(directory.path()), Names{"x"}) << nth;
    if (!faulty.fired()) {
      EXPECT_GE(nth, 8);
      break;
    }
  }
}

// The same for one who has it locked; a file that a killed one left half written is in nobody's way.
TEST(Directory, ReplacesALockedFileWholeOrNotAtAll) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  for (long nth = 1;; ++nth) {
    replace_locked_file(path, "old", true);
    replace_file(path + ".tmp", "half of something longer", false);
    FailingSystem faulty;
    faulty.fail(nth, EIO);
    bool failed = false;
    try {
      ScopedSystem scoped(faulty);
      replace_locked_file(path, "new", true);
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.system_error(), EIO);
    }
    auto contents = read_file(path);
    EXPECT_TRUE(contents == "new" || (failed && contents == "old")) << nth;
    if (!faulty.fired()) {
      EXPECT_GE(nth, 8);
      break;
    }
  }
  EXPECT_EQ(list_directory(directory.path()), Names{"x"});
}

TEST(Directory, PassesOverTemporaryNamesOfOthers) {
  TemporaryDirectory directory;
  FailingSystem faulty;
  faulty.fail(1, EEXIST);
  ScopedSystem scoped(faulty);
  replace_file(directory.path("x"), "contents", false);
  EXPECT_EQ(read_file(directory.path("x")), "contents");
}

TEST(Directory, ThreadsReplaceTheSameFile) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  auto work = [&] {
    for (int i = 0; i < 200; ++i) replace_file(path, std::string(100, 'x'), false);
  };
  work();
  std::thread other(work);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(read_file(path)->size(), 100U);
  work();
  other.join();
  EXPECT_EQ(list_directory(directory.path()), Names{"x"});
}

TEST(Directory, SyncsTheDirectoryOfARelativePath) {
  TemporaryDirectory directory;
  ASSERT_EQ(::chdir(directory.path().c_str()), 0);
  replace_file("x", "1", true);
  EXPECT_EQ(read_file(directory.path("x")), "1");
  ASSERT_EQ(::chdir("/"), 0);
}

TEST(Clock, CanBeReplaced) {
  struct Fixed : Clock {
    Timestamp now() const override { return {42}; }
  } fixed;
  EXPECT_GT(clock().now().value, 1'600'000'000'000);
  {
    ScopedClock scoped(fixed);
    EXPECT_EQ(clock().now().value, 42);
    EXPECT_GT(clock().monotonic_us(), 0);
  }
  EXPECT_NE(clock().now().value, 42);
}

TEST(Clock, BootIdIsOneLine) {
  EXPECT_FALSE(boot_id().empty());
  EXPECT_EQ(boot_id().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace partlog::os

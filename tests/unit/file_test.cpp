#include "os/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "os/directory.h"
#include "os/system.h"
#include "partlog/error.h"
#include "support/faulty_system.h"
#include "support/temporary_directory.h"

namespace partlog::os {
namespace {

using test::FailingSystem;
using test::TemporaryDirectory;

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::io, "");
}

std::string text_at(const File& file, std::int64_t position, std::size_t size) {
  std::string text(size, '?');
  text.resize(file.read_at(text, position));
  return text;
}

TEST(File, ReadsWhatWasWrittenAndStopsAtTheEnd) {
  TemporaryDirectory directory;
  auto file = File::open(directory.path("x"), File::Mode::create);
  file.write_at(std::string_view("abcdef"), 2);
  EXPECT_EQ(file.size(), 8);
  EXPECT_EQ(text_at(file, 0, 100), std::string("\0\0abcdef", 8));
  EXPECT_EQ(text_at(file, 5, 2), "de");
  EXPECT_EQ(text_at(file, 8, 2), "");
  file.truncate(4);
  EXPECT_EQ(file.size(), 4);
}

TEST(File, ModesSayWhatMustBeThere) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  auto missing = error_of([&] { File::open(path, File::Mode::write); });
  EXPECT_EQ(missing.code(), ErrorCode::not_found);
  EXPECT_EQ(missing.what(), "open " + path + ": No such file or directory");
  EXPECT_EQ(missing.system_error(), ENOENT);
  EXPECT_FALSE(File::open_if_exists(path, File::Mode::read));
  File::open(path, File::Mode::create_new);
  EXPECT_EQ(error_of([&] { File::open(path, File::Mode::create_new); }).code(), ErrorCode::already_exists);
  EXPECT_TRUE(File::open_if_exists(path, File::Mode::read));
  EXPECT_NO_THROW(File::open(path, File::Mode::create));
}

TEST(File, IsClosedOnExec) {
  TemporaryDirectory directory;
  auto file = File::open(directory.path("x"), File::Mode::create);
  EXPECT_NE(::fcntl(file.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(File, RefusesWhatIsNoFileAndDoesNotWaitForIt) {
  TemporaryDirectory directory;
  const auto pipe = directory.path("pipe"), socket = directory.path("socket");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  ASSERT_EQ(::mknod(socket.c_str(), S_IFSOCK | 0666, 0), 0);
  for (const std::string& path : {pipe, socket, std::string("/dev/null")}) {
    for (const auto mode : {File::Mode::read, File::Mode::write, File::Mode::create}) {
      for (const auto& error : {error_of([&] { File::open(path, mode); }), error_of([&] { File::open_if_exists(path, mode); })}) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_EQ(error.what(), "open " + path + ": not a regular file");
      }
    }
    EXPECT_EQ(error_of([&] { read_file(path); }).what(), "open " + path + ": not a regular file");
  }
  EXPECT_TRUE(File::open(directory.path("."), File::Mode::read).status().is_directory);
}

TEST(File, IsWaitedForWhileSomebodyHasALeaseOnIt) {
  class Leased : public System {
   public:
    int open(const char* path, int flags, mode_t mode) override {
      if ((flags & O_NONBLOCK) == 0) return System::open(path, flags, mode);
      errno = EWOULDBLOCK;
      return -1;
    }
  } leased;
  TemporaryDirectory directory;
  File::open(directory.path("x"), File::Mode::create).write_at(std::string_view("abc"), 0);
  ScopedSystem scoped(leased);
  EXPECT_EQ(read_file(directory.path("x")), "abc");
}

TEST(File, MovesItsDescriptor) {
  TemporaryDirectory directory;
  auto a = File::open(directory.path("a"), File::Mode::create);
  int fd = a.descriptor();
  File b = std::move(a);
  EXPECT_EQ(b.descriptor(), fd);
  b = File::open(directory.path("b"), File::Mode::create);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);  // closed
  b.close();
  EXPECT_FALSE(b.is_open());
}

TEST(File, ContinuesAShortWriteAndNamesThePositionWhereItFailed) {
  TemporaryDirectory directory;
  auto path = directory.path("x");
  auto file = File::open(path, File::Mode::create);
  FailingSystem full;
  full.shorten_write(1, ENOSPC);
  {
    ScopedSystem scoped(full);
    auto error = error_of([&] { file.write_at(std::string_view("0123456789"), 100); });
    EXPECT_EQ(error.what(), "write " + path + " at position 105: No space left on device");
    EXPECT_EQ(error.system_error(), ENOSPC);
  }
  EXPECT_TRUE(full.fired());
  EXPECT_EQ(file.size(), 105);
}

TEST(File, SignalsDoNotDisturb) {
  TemporaryDirectory directory;
  for (long nth = 1;; ++nth) {
    FailingSystem faulty(FailingSystem::Count::changes);
    faulty.fail(nth, EINTR);
    ScopedSystem scoped(faulty);
    auto file = File::open(directory.path("x"), File::Mode::create);
    file.write_at(std::string_view("abc"), 0);
    file.truncate(2);
    file.sync_data();
    EXPECT_EQ(text_at(file, 0, 5), "ab");
    if (!faulty.fired()) break;
    ASSERT_LT(nth, 10);
  }
}

TEST(File, StaleHandlesAreVisible) {
  TemporaryDirectory directory;
  auto file = File::open(directory.path("x"), File::Mode::create);
  FailingSystem faulty;
  faulty.fail(1, ESTALE);
  ScopedSystem scoped(faulty);
  EXPECT_EQ(error_of([&] { text_at(file, 0, 1); }).system_error(), ESTALE);
}

TEST(File, PreallocationKeepsTheSizeAndNeverThrows) {
  TemporaryDirectory directory;
  auto file = File::open(directory.path("x"), File::Mode::create);
  file.preallocate(0, 1 << 20);
  EXPECT_EQ(file.size(), 0);
  FailingSystem faulty;
  faulty.fail(1, ENOSPC);
  ScopedSystem scoped(faulty);
  EXPECT_FALSE(file.preallocate(0, 1 << 20));
}

TEST(File, StatusTellsFilesApart) {
  TemporaryDirectory directory;
  auto a = File::open(directory.path("a"), File::Mode::create);
  auto b = File::open(directory.path("b"), File::Mode::create);
  EXPECT_NE(a.status().id, b.status().id);
  rename_path(directory.path("a"), directory.path("c"));
  EXPECT_EQ(status_of(directory.path("c"))->id, a.status().id);
  EXPECT_FALSE(a.status().is_directory);
  EXPECT_TRUE(status_of(directory.path())->is_directory);
  EXPECT_FALSE(status_of(directory.path("a")));
  EXPECT_FALSE(status_of(directory.path("c/below-a-file")));
  EXPECT_GT(a.status().modified_ms, 1'600'000'000'000);
}

TEST(Mapping, ShowsAnyPartOfAFile) {
  TemporaryDirectory directory;
  auto file = File::open(directory.path("x"), File::Mode::create);
  std::string text(10'000, '.');
  text.replace(5'000, 5, "hello");
  file.write_at(text, 0);
  Mapping mapping(file, 5'000, 5);
  Mapping moved = std::move(mapping);
  EXPECT_TRUE(mapping.bytes().empty());
  EXPECT_EQ(std::string_view(moved.bytes().data(), moved.bytes().size()), "hello");
  moved = Mapping(file, 0, 10'000);
  EXPECT_EQ(std::string_view(moved.bytes().data(), moved.bytes().size()), text);
  EXPECT_TRUE(Mapping(file, 10'000, 0).bytes().empty());
}

}  // namespace
}  // namespace partlog::os

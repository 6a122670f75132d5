#include "os/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "os/directory.h"
#include "partlog/error.h"
#include "support/child_process.h"
#include "support/temporary_directory.h"

namespace partlog::os {
namespace {

using namespace std::chrono_literals;
using test::ChildProcess;
using test::Line;
using test::TemporaryDirectory;

// Locks, says so, and holds on until it is told to go (or killed).
int hold(const std::string& path, Line& line) {
  auto guard = FileLock::open(path).lock();
  line.send();
  line.receive();
  return 0;
}

Error error_of(const FileLock& lock, const LockWait& wait) {
  try {
    auto guard = lock.lock(wait);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "locked";
  return Error(ErrorCode::io, "");
}

TEST(FileLock, OpensOrMakesTheFile) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  EXPECT_THROW(FileLock::open(path, false), Error);
  EXPECT_FALSE(status_of(path));
  auto lock = FileLock::open(path);
  EXPECT_EQ(status_of(path)->size, 0);
  EXPECT_NO_THROW(FileLock::open(path, false));
  try {
    FileLock::open(directory.path("none/x.lock"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
}

TEST(FileLock, ExcludesOtherProcessesAndNamesTheHolder) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess child([&](Line& line) { return hold(path, line); });
  ASSERT_TRUE(child.line().receive());
  EXPECT_EQ(lock_holder(path), child.pid());  // not open here
  auto lock = FileLock::open(path);
  EXPECT_EQ(lock_holder(path), child.pid());
  EXPECT_FALSE(lock.try_lock());
  auto error = error_of(lock, {.timeout = 20ms});
  EXPECT_EQ(error.code(), ErrorCode::busy);
  EXPECT_EQ(error.what(), path + ": lock held by process " + std::to_string(child.pid()) + " (time-out 20 ms)");
  child.line().send();
  auto guard = lock.lock();
  EXPECT_EQ(lock_holder(path), ::getpid());
  EXPECT_EQ(child.wait(), 0);
}

TEST(FileLock, IsFreeOnceItsHolderIsKilled) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess child([&](Line& line) { return hold(path, line); });
  ASSERT_TRUE(child.line().receive());
  child.kill(SIGKILL);
  EXPECT_TRUE(FileLock::open(path).lock().owns());
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST(FileLock, NobodyHoldsAFreeOrMissingLock) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  EXPECT_EQ(lock_holder(path), std::nullopt);
  auto lock = FileLock::open(path);
  EXPECT_EQ(lock_holder(path), std::nullopt);
  auto guard = lock.lock();
  EXPECT_EQ(lock_holder(path), ::getpid());
  guard.unlock();
  EXPECT_FALSE(guard.owns());
  EXPECT_EQ(lock_holder(path), std::nullopt);
}

// Opening a pipe to ask would wait for its other end.
TEST(FileLock, RefusesWhatIsNoRegularFile) {
  TemporaryDirectory directory;
  const auto pipe = directory.path() + "/pipe.lock";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  const auto device = directory.path() + "/device.lock";
  ASSERT_EQ(::symlink("/dev/null", device.c_str()), 0);
  for (const auto& path : {pipe, device, directory.path()}) {
    for (const auto& action : {std::function<void()>([&] { FileLock::open(path); }), {[&] { lock_holder(path); }}}) {
      try {
        action();
        ADD_FAILURE() << path;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
    }
  }
}

TEST(FileLock, HolderIsFoundWithReadPermissionOnly) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess child([&](Line& line) { return hold(path, line); });
  ASSERT_TRUE(child.line().receive());
  ChildProcess reader([&](Line&) {
    if (::chmod(directory.path().c_str(), 0755) != 0 || ::chmod(path.c_str(), 0444) != 0) return 2;
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 3;
    return lock_holder(path) == child.pid() ? 0 : 1;
  });
  EXPECT_EQ(reader.wait(), 0);
}

// What another process sees, after all that this one may do with the path besides.
TEST(FileLock, StaysHeldWhateverElseTheProcessDoesWithThePath) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess child([&](Line& line) {
    while (line.receive()) line.send(lock_holder(path) ? 'h' : 'f');
    return 0;
  });
  auto seen = [&] {
    child.line().send();
    return child.line().receive();
  };
  auto guard = FileLock::open(path).lock();  // the FileLock itself is gone already
  EXPECT_EQ(seen(), 'h');
  {
    auto again = FileLock::open(path);
  }
  EXPECT_EQ(seen(), 'h');
  EXPECT_FALSE(FileLock::open(path).try_lock());
  EXPECT_EQ(lock_holder(path), ::getpid());
  EXPECT_EQ(seen(), 'h');
  ASSERT_EQ(::link(path.c_str(), directory.path("alias").c_str()), 0);
  EXPECT_FALSE(FileLock::open(directory.path("alias")).try_lock());
  EXPECT_EQ(seen(), 'h');
  EXPECT_TRUE(guard.still_held());
  FileLock::Guard moved = std::move(guard);
  EXPECT_FALSE(guard.still_held());
  EXPECT_EQ(seen(), 'h');
  moved = {};
  EXPECT_EQ(seen(), 'f');
}

TEST(FileLock, NoticesThatTheLockWasLost) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess thief([&](Line& line) {
    line.receive();
    return hold(path, line);
  });
  auto guard = FileLock::open(path).lock();
  ::close(::open(path.c_str(), O_RDONLY));  // what nothing but a test does
  thief.line().send();
  ASSERT_TRUE(thief.line().receive());
  EXPECT_FALSE(guard.still_held());
}

TEST(FileLock, IsNotInheritedThroughExec) {
  TemporaryDirectory directory;
  auto lock = FileLock::open(directory.path("x.lock"));
  pid_t child = ::fork();
  if (child == 0) {
    const char* script = "! ls -l /proc/self/fd | grep x[.]lock";
    ::execl("/bin/sh", "sh", "-c", script, nullptr);
    ::_exit(99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FileLock, ExcludesThreads) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  std::atomic<int> inside = 0;
  int count = 0;
  auto work = [&](const LockWait& wait) {
    for (int i = 0; i < 500; ++i) {
      auto guard = FileLock::open(path).lock(wait);  // opens and closes the descriptor time and again
      EXPECT_EQ(++inside, 1);
      ++count;
      --inside;
    }
  };
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  threads.emplace_back(work, LockWait{});
  threads.emplace_back(work, LockWait{.timeout = 60s});
  threads.emplace_back(work, LockWait{.timeout = {}, .stop = &stop});
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 1500);
}

// One thread closes the descriptor of a lock that nobody uses any more while another opens and locks the file anew.
TEST(FileLock, ClosingADescriptorDropsNoOtherThreadsLock) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  void* shared = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& inside = *new (shared) std::atomic<int>(0);
  auto rounds = [&](Line& line) {
    std::atomic<int> intruders = 0;
    auto work = [&] {
      for (int i = 0; i < 3000; ++i) {
        auto guard = FileLock::open(path).lock();
        if (++inside != 1) ++intruders;
        std::this_thread::yield();
        --inside;
      }
    };
    line.send();
    line.receive();
    std::thread other(work);
    work();
    other.join();
    return intruders == 0 ? 0 : 1;
  };
  ChildProcess a(rounds), b(rounds);
  ASSERT_TRUE(a.line().receive() && b.line().receive());
  a.line().send();
  b.line().send();
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  ::munmap(shared, sizeof(std::atomic<int>));
}

TEST(FileLock, AThreadWaitsForAnotherNoLongerThanItsTimeout) {
  TemporaryDirectory directory;
  auto lock = FileLock::open(directory.path("x.lock"));
  auto guard = lock.lock();
  EXPECT_FALSE(lock.try_lock());
  auto error = error_of(lock, {.timeout = 5ms});
  EXPECT_EQ(error.code(), ErrorCode::busy);
  EXPECT_EQ(error.what(), lock.path() + ": lock held by process " + std::to_string(::getpid()) + " (time-out 5 ms)");
  EXPECT_EQ(error_of(lock, {.timeout = 0ms}).code(), ErrorCode::busy);
  guard.unlock();
  EXPECT_TRUE(lock.lock({.timeout = 0ms}).owns());
  EXPECT_TRUE(lock.lock({.timeout = std::chrono::milliseconds::max()}).owns());
}

std::atomic<bool> stopped;

// Without SA_RESTART, so that it interrupts.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

// One process is stopped while it waits for another one's lock, by a signal.
TEST(FileLock, ASignalEndsTheWaitForAnotherProcess) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess holder([&](Line& line) { return hold(path, line); });
  ASSERT_TRUE(holder.line().receive());
  ChildProcess waiting([&](Line& line) {
    handle(SIGTERM, [](int) { stopped = true; });
    auto lock = FileLock::open(path);
    line.send();
    return error_of(lock, {.timeout = {}, .stop = &stopped}).code() == ErrorCode::interrupted ? 0 : 1;
  });
  ASSERT_TRUE(waiting.line().receive());
  // Before, in the middle of, or between its calls: so more than one.
  EXPECT_EQ(waiting.wait_signalling(SIGTERM), 0);
}

TEST(FileLock, AnotherThreadEndsTheWait) {
  handle(SIGUSR1, [](int) {});
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess holder([&](Line& line) { return hold(path, line); });
  ASSERT_TRUE(holder.line().receive());
  auto remote = FileLock::open(path), local = FileLock::open(directory.path("y.lock"));
  auto guard = local.lock();
  for (const auto* lock : {&remote, &local}) {
    for (bool poll : {false, true}) {
      std::atomic<bool> stop = false, over = false;
      std::thread other([&, waiting = ::pthread_self()] {
        for (stop = true; !over; std::this_thread::yield()) ::pthread_kill(waiting, SIGUSR1);
      });
      EXPECT_EQ(error_of(*lock, {.timeout = {}, .stop = &stop, .poll = poll}).code(), ErrorCode::interrupted);
      over = true;
      other.join();
    }
  }
}

TEST(FileLock, PollingGetsTheLock) {
  TemporaryDirectory directory;
  auto path = directory.path("x.lock");
  ChildProcess holder([&](Line& line) { return hold(path, line); });
  ASSERT_TRUE(holder.line().receive());
  holder.line().send();
  EXPECT_TRUE(FileLock::open(path).lock({.timeout = {}, .stop = nullptr, .poll = true}).owns());
}

// The kernel sees process A wait for B and B for A, and calls it a deadlock, though no thread waits while it holds a lock.
TEST(FileLock, ThreadsOfTwoProcessesNeverDeadlock) {
  TemporaryDirectory directory;
  auto rounds = [&](Line& line) {
    std::atomic<int> failures = 0;
    auto work = [&](const std::string& path) {
      try {
        auto lock = FileLock::open(path);
        for (int i = 0; i < 2000; ++i) {
          auto guard = lock.lock();
          std::this_thread::yield();
        }
      } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ++failures;
      }
    };
    line.send();
    line.receive();
    std::thread other(work, directory.path("0.lock"));
    work(directory.path("1.lock"));
    other.join();
    return failures.load();
  };
  ChildProcess a(rounds), b(rounds);
  ASSERT_TRUE(a.line().receive() && b.line().receive());
  a.line().send();
  b.line().send();
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
}

TEST(FileLock, DataFilesAreLockedBesides) {
  TemporaryDirectory directory;
  auto path = directory.path("x.log");
  ChildProcess child([&](Line& line) {
    auto file = File::open(path, File::Mode::create);
    line.send(try_lock_data(file.descriptor()) ? 'y' : 'n');
    line.receive();
    return 0;
  });
  ASSERT_EQ(child.line().receive(), 'y');
  auto file = File::open(path, File::Mode::create);
  EXPECT_FALSE(try_lock_data(file.descriptor()));
  child.line().send();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(try_lock_data(file.descriptor()));
}

}  // namespace
}  // namespace partlog::os

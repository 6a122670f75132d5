// Members that are stopped (SIGSTOP) in the midst of changing the group: nobody waits for them but for the partitions that they
// have claimed, and when they go on, they find their place.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "format/file_names.h"
#include "group/member_table.h"
#include "group_consumer.h"
#include "os/directory.h"
#include "os/file_lock.h"
#include "os/host.h"
#include "os/system.h"
#include "support/child_process.h"
#include "support/faulty_system.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int partition_count = 4;
constexpr int never_stopped = 7;
// A dead member is found within 250 ms, and what a stopped one leaves lying goes to others after 400.
constexpr auto soon = 1000ms;

enum class Doing { join, take_over, leave };
std::ostream& operator<<(std::ostream& out, Doing doing) {
  return out << (doing == Doing::join ? "join" : doing == Doing::leave ? "leave" : "take_over");
}

GroupMemberOptions with_lock_timeout(std::chrono::milliseconds timeout) {
  GroupMemberOptions options;
  options.lock_timeout = timeout;
  return options;
}

volatile sig_atomic_t told_to_leave = 0;

// Consumes until it is told to leave, as consumers do.
void consume_on(Consumer& consumer) {
  while (told_to_leave == 0) {
    consumer.step();
    pollfd ready = {consumer.member.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 20);
  }
  consumer.member.leave();
}

// In a child process: does it, and is stopped right before the nth of its system calls.
int be_stopped(const Store& store, const std::string& group, Doing doing, long nth, Line& line) {
  ::signal(SIGTERM, [](int) { told_to_leave = 1; });
  std::optional<Consumer> consumer;
  if (doing != Doing::join) {
    consumer.emplace(store, group, std::vector<std::string>{"t"});
    if (!until({&*consumer}, [&] { return consumer->partitions().size() == partition_count / 2; })) return 1;
    line.send();
  }
  line.receive();
  FailingSystem stopping;
  stopping.before(nth, [] { ::raise(SIGSTOP); });
  {
    os::ScopedSystem scoped(stopping);
    if (doing == Doing::join)
      consumer.emplace(store, group, std::vector<std::string>{"t"});
    else if (doing == Doing::leave)
      consumer->member.leave();
    else if (!until({&*consumer}, [&] { return consumer->partitions().size() == partition_count || stopping.fired(); }))
      return 2;
  }
  if (!stopping.fired()) return never_stopped;
  if (doing != Doing::leave) consume_on(*consumer);
  return ::testing::Test::HasFailure() ? 3 : 0;
}

int be_killed(const Store& store, const std::string& group, std::size_t count, Line& line) {
  Consumer consumer(store, group, {"t"});
  if (!until({&consumer}, [&] { return consumer.partitions().size() == count; })) return 1;
  line.send();
  consume_on(consumer);
  return 0;
}

class StoppedMemberTest : public LogTest, public ::testing::WithParamInterface<Doing> {
 protected:
  Group group(const std::string& name = "g") const { return Group::open_or_create(store_, name); }

  // By partition; 0: nobody.
  std::vector<int> holders(const std::string& name) const {
    std::vector<int> pids;
    pids.reserve(partition_count);
    for (int p = 0; p < partition_count; ++p) {
      pids.push_back(os::lock_holder(format::claim_lock_path(group(name).directory(), "t", p)).value_or(0));
    }
    return pids;
  }
  long held_by(const std::string& name, int pid) const {
    const auto pids = holders(name);
    return std::count(pids.begin(), pids.end(), pid);
  }
  std::size_t members_in_table(const std::string& name) const {
    try {
      return group(name).state().members.size();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      return 0;
    }
  }

  // What is free is this process's soon, though the other one is stopped; what that has, it keeps.
  void expect_takeover(Consumer& one, const std::string& name, int stopped, Clock::time_point since) {
    std::set<std::string> its;
    const auto pids = holders(name);
    for (int p = 0; p < partition_count; ++p) {
      if (pids[static_cast<std::size_t>(p)] == stopped) its.insert("t:" + std::to_string(p));
    }
    ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() + its.size() == partition_count; }));
    EXPECT_LT(Clock::now() - since, soon);
    for (const auto& partition : one.partitions()) EXPECT_FALSE(its.contains(partition)) << partition;
    EXPECT_EQ(held_by(name, stopped), static_cast<long>(its.size()));
  }

  void expect_nothing_left(const std::string& name) {
    EXPECT_EQ(holders(name), std::vector<int>(partition_count, 0));
    EXPECT_EQ(os::list_directory(format::members_path(group(name).directory())), std::vector<std::string>{});
    for (const auto& file : os::list_directory(group(name).directory())) EXPECT_FALSE(file.ends_with(".tmp")) << file;
  }

  // False once the other process is through before its nth call.
  bool stop_at(long nth) {
    const auto name = "g" + std::to_string(nth);
    group(name);
    const bool joins = GetParam() == Doing::join;
    ChildProcess stopped([&](Line& line) { return be_stopped(store_, name, GetParam(), nth, line); });
    ChildProcess killed([&](Line& line) { return be_killed(store_, name, joins ? partition_count : partition_count / 2, line); });
    EXPECT_TRUE(killed.line().receive());
    EXPECT_TRUE(joins || stopped.line().receive());
    const bool finds_the_dead = GetParam() == Doing::take_over;
    if (finds_the_dead) {
      killed.kill(SIGKILL);
      killed.wait();
    }
    stopped.line().send();
    if (!stopped.wait_stopped()) {
      EXPECT_EQ(stopped.wait(), never_stopped);
      return false;
    }
    auto since = Clock::now();
    Consumer one(store_, name, {"t"}, with_lock_timeout(10s));
    EXPECT_LT(Clock::now() - since, soon) << "waited to join";
    if (!finds_the_dead) {
      killed.kill(SIGKILL);
      killed.wait();
      since = Clock::now();
    }
    expect_takeover(one, name, stopped.pid(), since);

    stopped.kill(SIGCONT);
    if (GetParam() != Doing::leave) {
      const auto both = [&] {
        return one.partitions().size() == partition_count / 2 && held_by(name, stopped.pid()) == partition_count / 2 &&
               members_in_table(name) == 2;
      };
      EXPECT_TRUE(until({&one}, both));
      stopped.kill(SIGTERM);
    }
    const auto all = [&] { return one.partitions().size() == partition_count && members_in_table(name) == 1; };
    EXPECT_TRUE(until({&one}, all));
    EXPECT_EQ(stopped.wait(), 0);
    one.member.leave();
    expect_nothing_left(name);
    return true;
  }
};

// Several at a time, since they wait for the most part.
TEST_P(StoppedMemberTest, IsInNobodysWay) {
  make_topic({}, partition_count);
  constexpr int workers = 4;
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int worker = 1; worker <= workers; ++worker) {
    children.push_back(std::make_unique<ChildProcess>([&](Line&) {
      long nth = worker;
      for (; stop_at(nth); nth += workers) {
        if (!HasFailure()) continue;
        std::cerr << "stopped before system call " << nth << '\n';
        return 1;
      }
      return HasFailure() ? 2 : nth > 10 ? 0 : 3;
    }));
  }
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(While, StoppedMemberTest, ::testing::Values(Doing::join, Doing::take_over, Doing::leave),
                         ::testing::PrintToStringParamName());

// A process that is stopped while it has group.lock.
class StoppedHolderTest : public LogTest {
 protected:
  Group group() const { return Group::open_or_create(store_, "g"); }
  std::string path(const std::string& name) const { return group().directory() + "/" + name; }
  std::optional<os::FileId> lock_file() const { return os::status_of(path("group.lock"))->id; }

  // Whether a member joins beside it, or says so at the end of its time-out.
  bool joins_beside(const ChildProcess& holder) {
    EXPECT_EQ(os::lock_holder(path("group.lock")), holder.pid());
    try {
      Consumer one(store_, "g", {"t"}, with_lock_timeout(200ms));
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::busy);
      EXPECT_NE(std::string(error.what()).find("process " + std::to_string(holder.pid()) + " (time-out 200 ms)"),
                std::string::npos)
          << error.what();
      return false;
    }
  }
};

TEST_F(StoppedHolderTest, WhoChangesTheGroupIsNotPassedBy) {
  make_topic();
  group();
  const auto file = lock_file();
  ChildProcess child([&](Line&) {
    const GroupChange change(group());
    ::raise(SIGSTOP);
    return 0;
  });
  ASSERT_TRUE(child.wait_stopped());
  EXPECT_FALSE(joins_beside(child));
  EXPECT_EQ(lock_file(), file);
  EXPECT_TRUE(os::list_directory(path("members")).empty());
  child.kill(SIGCONT);
  EXPECT_EQ(child.wait(), 0);
  Consumer one(store_, "g", {"t"});
}

// A member file that another process has locked does not make it a member.
TEST_F(StoppedHolderTest, OnlyAMemberIsPassedBy) {
  make_topic();
  group();
  const auto file = lock_file();
  for (const bool is_member : {false, true}) {
    ChildProcess child([&](Line& line) {
      const auto member = path("members/host-" + std::to_string(::getpid()) + "-1.lock");
      std::optional<os::FileLock::Guard> guard;
      if (is_member)
        guard = os::FileLock::open(member).lock();
      else
        os::FileLock::open(member);
      const auto lock = os::FileLock::open(path("group.lock")).lock();
      line.send();
      if (line.receive() != 's') return 1;
      ::raise(SIGSTOP);
      return lock.still_held() ? 0 : 2;
    });
    ASSERT_TRUE(child.line().receive());
    EXPECT_FALSE(joins_beside(child)) << "it is not stopped";
    child.line().send('s');
    ASSERT_TRUE(child.wait_stopped());
    EXPECT_EQ(joins_beside(child), is_member);
    EXPECT_EQ(lock_file() == file, !is_member);
    child.kill(SIGCONT);
    EXPECT_EQ(child.wait(), 0);
  }
}

// Whoever has lost group.lock looks before it writes. Between that look and the rename there is nothing but the making of the
// file: a newer table that comes then is replaced.
TEST_F(StoppedHolderTest, WhoIsPassedByWritesNothing) {
  make_topic();
  const auto text_of_generation = [](int n) { return "assignor=sticky\ngeneration=" + std::to_string(n) + "\n"; };
  int replaced = 0, kept = 0;
  for (long nth = 1;; ++nth) {
    std::filesystem::remove(path("group.properties"));
    const auto files = std::pair(path("group.lock"), path("group.properties"));
    FailingSystem system;
    bool in_hand = false;
    system.before(nth, [&] {
      std::ofstream(files.second + ".new") << text_of_generation(100);
      std::filesystem::rename(files.second + ".new", files.second);
      std::ofstream(files.first + ".new").close();
      std::filesystem::rename(files.first + ".new", files.first);
      in_hand = true;
    });
    os::ScopedSystem scoped(system);
    Consumer one(store_, "g", {"t"});
    if (!in_hand) break;
    const auto state = group().state();
    const bool was_joined = !state.members.empty();
    if (was_joined && state.generation == 101) ++kept;
    if (was_joined && state.generation < 100) ++replaced;
  }
  EXPECT_GT(kept, 10);
  EXPECT_LE(replaced, 4);
}

// Whoever was stopped right before that rename puts an old table in place: its generation is lower, and what it assigns to those
// who leave it lying goes to others all the same.
TEST_F(StoppedHolderTest, AnOlderTableThatComesBackHoldsUpNobody) {
  make_topic({}, 2);
  Consumer one(store_, "g", {"t"});
  Consumer silent(store_, "g", {"t"});
  ASSERT_TRUE(until({&one, &silent}, [&] { return one.partitions().size() == 1 && silent.partitions().size() == 1; }));
  auto table = group::parse_member_table(contents_of(path("group.properties")), "table");
  table.generation = 1;
  silent.owned.clear();
  for (int p = 0; p < 2; ++p) silent.member.release({"t", p});
  table.find(one.member.id())->assigned.clear();
  table.find(silent.member.id())->assigned = {{"t", 0}, {"t", 1}};
  os::replace_file(path("group.properties"), group::format_member_table(table), false);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().empty(); }));
  const auto since = Clock::now();
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2; }));
  EXPECT_LT(Clock::now() - since, soon);
  EXPECT_GT(group().state().generation, 2);
}

// What a member that was killed in the midst of joining or writing leaves behind goes with the next change.
TEST_F(StoppedHolderTest, FilesOfTheDeadAreSwept) {
  make_topic();
  group();
  for (const auto* name : {"members/host-1-a.lock", "members/host-1-b.tmp", "members/host-1-c.lock", "members/host-1-c.tmp"}) {
    os::replace_file(path(name), "", false);
  }
  Consumer one(store_, "g", {"t"});
  EXPECT_EQ(os::list_directory(path("members")), (std::vector<std::string>{one.member.id() + ".lock"}));
}

TEST(Host, KnowsWhoIsStopped) {
  ChildProcess child([](Line& line) {
    ::prctl(PR_SET_NAME, "a) T (b) T");
    line.send();
    line.receive();
    ::raise(SIGSTOP);
    line.send();
    line.receive();
    return 0;
  });
  ASSERT_TRUE(child.line().receive());
  EXPECT_FALSE(os::is_stopped(child.pid()));
  child.line().send();
  ASSERT_TRUE(child.wait_stopped());
  EXPECT_TRUE(os::is_stopped(child.pid()));
  child.kill(SIGCONT);
  ASSERT_TRUE(child.line().receive());
  EXPECT_FALSE(os::is_stopped(child.pid()));
  child.line().send();
  const auto pid = child.pid();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(os::is_stopped(pid));
}

TEST(Host, DoesNotTakeATracedProcessForStopped) {
  constexpr int not_permitted = 2;
  ChildProcess traced([](Line&) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return not_permitted;
    ::raise(SIGSTOP);
    return 1;
  });
  siginfo_t changed{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(traced.pid()), &changed, WSTOPPED | WEXITED | WNOWAIT), 0);
  // Containers may forbid it.
  if (changed.si_code == CLD_EXITED && changed.si_status == not_permitted) GTEST_SKIP() << "a process may not be traced here";
  ASSERT_EQ(changed.si_code, CLD_TRAPPED);
  EXPECT_FALSE(os::is_stopped(traced.pid()));
}

TEST_F(StoppedHolderTest, ALockFileIsRenewedIfItIsDue) {
  make_topic();
  group();
  ASSERT_EQ(::chmod(path("group.lock").c_str(), 0640), 0);
  const auto file = lock_file();
  os::replace_file(path("group.lock.tmp"), "of a killed process", false);
  EXPECT_FALSE(os::renew_empty_file(path("group.lock"), [] { return false; }));
  EXPECT_EQ(lock_file(), file);
  EXPECT_FALSE(os::status_of(path("group.lock.tmp")));
  EXPECT_TRUE(os::renew_empty_file(path("group.lock"), [] { return true; }));
  EXPECT_NE(lock_file(), file);
  struct stat found{};
  ASSERT_EQ(::stat(path("group.lock").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0640u);
  // Others, who do the same, have renamed our file.
  EXPECT_FALSE(os::renew_empty_file(path("group.lock"), [&] {
    std::filesystem::rename(path("group.lock.tmp"), path("group.lock"));
    return true;
  }));
}

}  // namespace
}  // namespace partlog::test

#include "group_consumption.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>

#include "group_commands.h"
#include "messages.h"
#include "partlog/error.h"
#include "signals.h"
#include "text.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

using std::chrono::milliseconds;

// How often the other members are looked after, and how soon what is expected any moment is looked at.
constexpr milliseconds usual_wait{250};
constexpr milliseconds short_wait{2};
constexpr milliseconds claim_wait{10};
// When a partition that another member does not let go of is worth a word, and how often we ask who that is.
constexpr milliseconds worth_a_notice{2000};
constexpr milliseconds look_interval{100};

std::string name_of(const TopicPartition& partition) { return partition_name(partition.topic, partition.partition); }

}  // namespace

// A partition that is ours.
struct GroupConsumption::Owned {
  Owned(TopicPartition p, Arrivals a, std::optional<Offset> c) : partition(std::move(p)), arrivals(std::move(a)), committed(c) {}

  TopicPartition partition;
  std::optional<PartitionCursor> cursor;  // none: it failed
  Arrivals arrivals;
  std::optional<Offset> committed;
  std::int32_t epoch = no_epoch;
  bool revoked = false;
  bool lost = false;                         // to another member: nothing of it is ours to say
  std::string failure;                       // why the last commit failed
  std::shared_ptr<const Topic> past_end_of;  // with -F: the topic, while the position is past its end

  bool readable() const { return cursor && !cursor->done() && !revoked && !lost; }
  bool under_way() const { return !lost && arrivals.anything_under_way(); }
};

// Readable when a signal asks us to end or the group changes.
class GroupConsumption::WakeUp {
 public:
  explicit WakeUp(std::initializer_list<int> descriptors) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) throw Error(ErrorCode::io, "preparing to wait: " + system_message(errno), errno);
    for (const int descriptor : descriptors) {
      epoll_event readable{};
      readable.events = EPOLLIN;
      if (descriptor >= 0) ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &readable);
    }
  }
  ~WakeUp() { ::close(epoll_); }
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  int descriptor() const { return epoll_; }

 private:
  int epoll_;
};

GroupConsumption::GroupConsumption(const Store& store, const Group& group, Delivery& delivery, Outcome& outcome,
                                   GroupOptions options)
    : store_(store), group_(group), delivery_(delivery), outcome_(outcome), options_(std::move(options)) {
  options_.member.commits = options_.commit != CommitPolicy::none;
  options_.member.stop = &stop_requested();
  options_.member.notice = notice;
  options_.range.follow = options_.follow;
}

GroupConsumption::~GroupConsumption() = default;

void GroupConsumption::run(const std::vector<std::string>& topics) {
  topics_ = topics;
  member_.emplace(store_, group_, topics, options_.member);
  delivery_.call_before([this](PartitionCursor& cursor, Offset from, Offset next) { before_delivery(cursor, from, next); });
  const auto waiting = [this] {
    look_after_group();
    commit_when_due();
  };
  delivery_.call_while_waiting(waiting, std::clamp(options_.commit_interval, short_wait, usual_wait));
  try {
    consume();
    delivery_.flush();
    wait_until_taken();
  } catch (...) {
    commit_all();
    throw;
  }
  commit_all();
  if (!past_end_.empty()) outcome_.fail(status_out_of_range);
  member_->leave();
}

void GroupConsumption::consume() {
  IdleTime idle(options_.idle_timeout);
  while (delivery_.wanted()) {
    rebalance();
    look_at_positions();
    const bool any = deliver_some();
    commit_when_due();
    release_retired();
    if (any) {
      idle.record_came();
      continue;
    }
    delivery_.flush();
    delivery_.require_taker();
    settle(false);
    look_for_obstacles();
    if (finished()) return tell_that_nothing_is_left();
    if (options_.follow && !watch_) {  // what came before there was a watch has to be looked for once more
      std::vector<std::string> directories;
      for (auto& owned : owned_) {
        if (owned.readable()) directories.push_back(owned.cursor->directory());
      }
      watch_ = std::make_unique<PartitionWatch>(directories);
      continue;
    }
    const auto timeout = idle.left();
    if (!timeout) return;
    wait(waiting_time(*timeout));
  }
}

// Nothing is left to be read, now or later; with -F, everything that is ours has failed.
bool GroupConsumption::finished() const {
  const auto busy = [](const Owned& owned) { return owned.readable() || owned.revoked; };
  if (std::any_of(owned_.begin(), owned_.end(), busy) || (!gave_up_ && !member_->awaited().empty())) return false;
  return options_.follow ? !owned_.empty() : !anything_under_way();
}

// Why a member ends that never got a partition.
void GroupConsumption::tell_that_nothing_is_left() const {
  if (had_any_) return;
  constexpr std::size_t most_named = 3;
  const auto state = group_.state();
  std::string holders;
  std::size_t more = 0;
  for (const auto& other : state.members) {
    std::string has;
    for (const auto& partition : other.assigned) {
      if (std::find(topics_.begin(), topics_.end(), partition.topic) != topics_.end())
        has += (has.empty() ? " has " : ", ") + name_of(partition);
    }
    if (has.empty() || ++more > most_named) continue;
    holders += "; process " + std::to_string(other.pid) + " on host " + other.host + " (member " + other.id + ")" + has;
  }
  if (more > most_named) holders += "; " + counted(more - most_named, "more member");
  notice("group \"" + group_.name() + "\": no partition is left for this member" + holders);
}

// What others do not let go of is said after a while. Who does not follow gives it up when the time for locks is over.
void GroupConsumption::look_for_obstacles() {
  const auto now = Clock::now();
  if (gave_up_ || now < next_look_ || member_->awaited().empty()) return;
  next_look_ = now + look_interval;
  for (const auto& obstacle : member_->obstacles()) {
    const auto& limit = options_.member.lock_timeout;
    if (!options_.follow && limit && obstacle.waited >= *limit) {
      outcome_.fail(Error(ErrorCode::busy, obstacle.message));
      gave_up_ = true;
    } else if (obstacle.holder && obstacle.waited >= worth_a_notice && told_.insert(obstacle.partition).second) {
      notice(obstacle.message + "; waiting for it");
    }
  }
}

milliseconds GroupConsumption::waiting_time(milliseconds at_most) const {
  const bool revoked = std::any_of(owned_.begin(), owned_.end(), [](const Owned& owned) { return owned.revoked; });
  if (revoked || (!options_.follow && anything_under_way())) return std::min(at_most, short_wait);
  if (!member_->awaited().empty()) at_most = std::min(at_most, claim_wait);
  if (anything_under_way()) at_most = std::min(at_most, std::max(options_.commit_interval, short_wait));
  return std::min(at_most, usual_wait);
}

// For a moment only, unless we follow: what a member waits on is not cheap to make and to take down.
void GroupConsumption::wait(milliseconds timeout) {
  if (!watch_) {
    pollfd stop = {stop_descriptor(), POLLIN, 0};
    ::poll(&stop, 1, static_cast<int>(timeout.count()));
    return;
  }
  if (!wake_up_) wake_up_ = std::make_unique<WakeUp>(std::initializer_list<int>{stop_descriptor(), member_->descriptor()});
  watch_->wait(timeout, wake_up_->descriptor(), delivery_.taker_descriptor());
}

bool GroupConsumption::anything_under_way() const {
  return std::any_of(owned_.begin(), owned_.end(), [](const Owned& owned) { return owned.under_way(); });
}

// However long the records in hand take: what becomes ours is claimed at once, or others would think that we do not respond.
// The rest has to wait.
void GroupConsumption::look_after_group() {
  if (poll_failure_) return;
  try {
    auto change = member_->poll();
    std::move(change.revoked.begin(), change.revoked.end(), std::back_inserter(change_.revoked));
    std::move(change.assigned.begin(), change.assigned.end(), std::back_inserter(change_.assigned));
    std::move(change.failed.begin(), change.failed.end(), std::back_inserter(change_.failed));
  } catch (const Error&) {
    poll_failure_ = std::current_exception();
  }
}

// What was assigned comes before what was revoked: it may be the same, but not the other way round before it was released.
void GroupConsumption::rebalance() {
  look_after_group();
  if (poll_failure_) std::rethrow_exception(poll_failure_);
  const auto change = std::exchange(change_, {});
  had_any_ = had_any_ || !change.assigned.empty() || !change.failed.empty() || !member_->awaited().empty();
  for (const auto& failed : change.failed) report(failed);
  for (const auto& assigned : change.assigned) {
    failures_.erase({assigned.topic.name, assigned.partition});
    take(assigned);
  }
  for (const auto& partition : change.revoked) revoke(partition);
}

// What stands in the way of several partitions is said once.
void GroupConsumption::report(const FailedPartition& failed) {
  const std::string text = failed.error.what();
  const bool known = std::any_of(failures_.begin(), failures_.end(), [&](const auto& other) { return other.second == text; });
  failures_[failed.partition] = text;
  if (known)
    outcome_.fail(exit_status(failed.error.code()));
  else
    outcome_.fail(failed.error);
}

void GroupConsumption::revoke(const TopicPartition& partition) {
  const auto owned = std::find_if(owned_.begin(), owned_.end(), [&](const Owned& other) { return other.partition == partition; });
  if (owned == owned_.end()) return member_->release(partition);
  owned->revoked = true;
  detail(name_of(partition) + " goes to another member of group \"" + group_.name() + "\"");
  watch_.reset();
  delivery_.flush();
}

void GroupConsumption::take(const AssignedPartition& assigned) {
  const auto topic = std::make_shared<const Topic>(assigned.topic);
  const auto committed = assigned.position ? std::optional(assigned.position->offset) : std::nullopt;
  Owned owned({topic->name, assigned.partition}, {store_, topic, assigned.partition, options_.range.reader, committed},
              committed);
  try {
    owned.cursor.emplace(open(assigned, topic));
    past_end_.erase(owned.partition);
    if (!committed && options_.range.reset == Reset::latest) {
      // The end is another one for whoever reads next, should we die before anything was committed.
      const auto start = member_->start_at(owned.partition, owned.cursor->next());
      owned.cursor->seek(start);
      owned.committed = start;
      owned.arrivals = {store_, topic, assigned.partition, options_.range.reader, start};
    }
    detail(name_of(owned.partition) + " is ours in group \"" + group_.name() + "\", from offset " +
           std::to_string(owned.cursor->next().value));
    if (!options_.follow) owned.cursor->release();
  } catch (const Error& error) {
    const bool past_end = assigned.position && assigned.position->state == GroupPosition::State::past_end;
    if (options_.follow && past_end && error.code() == ErrorCode::offset_out_of_range) {
      owned.past_end_of = topic;
      if (std::exchange(past_end_[owned.partition], committed) != committed) complain(error.what());
    } else {
      outcome_.fail(error);
    }
    owned.cursor.reset();
  }
  const auto rank = [this](const TopicPartition& partition) {
    return std::pair(std::find(topics_.begin(), topics_.end(), partition.topic), partition.partition);
  };
  const auto behind = std::find_if(owned_.begin(), owned_.end(),
                                   [&](const Owned& other) { return rank(owned.partition) < rank(other.partition); });
  owned_.insert(behind, std::move(owned));
  watch_.reset();
}

// A position that was past the end is valid again once the log has grown so far, or somebody has moved it. The partition is
// claimed anew then, because the position is to be read by whoever has just taken it.
void GroupConsumption::look_at_positions() {
  const auto now = Clock::now();
  if (past_end_.empty() || now < next_position_look_) return;
  next_position_look_ = now + usual_wait;
  for (auto owned = owned_.begin(); owned != owned_.end();) {
    if (owned->past_end_of && !owned->revoked && !is_past_end(*owned)) {
      member_->release(owned->partition);
      owned = owned_.erase(owned);
    } else {
      ++owned;
    }
  }
}

bool GroupConsumption::is_past_end(const Owned& owned) const {
  try {
    const auto position = group_.position(store_, *owned.past_end_of, owned.partition.partition);
    return position && position->state == GroupPosition::State::past_end && position->offset == owned.committed;
  } catch (const Error&) {
    return false;  // taking it anew tells why
  }
}

PartitionCursor GroupConsumption::open(const AssignedPartition& assigned, const std::shared_ptr<const Topic>& topic) {
  using State = GroupPosition::State;
  const auto name = name_of({topic->name, assigned.partition});
  const auto& position = assigned.position;
  auto range = options_.range;
  if (position && position->state == State::past_end) {
    PartitionReader reader(store_, *topic, assigned.partition);
    const auto stable = reader.stable_end();
    tell_if_shortened(stable, reader.end(), &store_, name);
    throw Error(ErrorCode::offset_out_of_range,
                name + ": the position " + std::to_string(position->offset.value) + " of group \"" + group_.name() +
                    "\" is past the end offset " + std::to_string(position->end.value) +
                    " (once the members of the group have ended, " + reset_command(store_, group_.name(), name) + " mends it)");
  }
  if (position) {
    if (position->state == State::cut) {
      notice(name + ": the log was cut, which took records from under the position " + std::to_string(position->committed.value) +
             " of group \"" + group_.name() + "\"; reading goes on at " + std::to_string(position->offset.value) +
             ", where the log ended then");
    }
    range.start = {StartPoint::Kind::stored, position->offset.value};
    range.lost_hint = " (once the members of group \"" + group_.name() + "\" have ended, " +
                      reset_command(store_, group_.name(), name, "--to-earliest") + " moves it there)";
  } else if (range.reset == Reset::fail) {
    throw Error(ErrorCode::offset_out_of_range,
                name + ": group \"" + group_.name() + "\" has no position there, and --reset is fail");
  } else {
    range.start = {range.reset == Reset::latest ? StartPoint::Kind::end : StartPoint::Kind::beginning, 0};
  }
  return {store_, topic, assigned.partition, range};
}

// Without -F one partition after another, so that the order is the same in every run; with it, all in turn.
bool GroupConsumption::deliver_some() {
  bool any = false;
  for (auto& owned : owned_) {
    if (!owned.readable()) continue;
    any = deliver_pieces(owned) || any;
    if (options_.follow && owned.cursor->memory() > options_.share) finish_large_batch(owned);
    if (!delivery_.wanted() || (any && !options_.follow)) break;
  }
  return any;
}

bool GroupConsumption::deliver_pieces(Owned& owned) {
  // A few dozen records each: so many take less time than a look at the clock and the group is worth.
  constexpr int pieces = 16;
  const int most = delivery_.is_quick() ? pieces : 1;
  bool any = false;
  for (int n = 0; n < most && owned.readable() && delivery_.wanted() && owned.arrivals.deliver(delivery_, *owned.cursor); ++n) {
    owned.epoch = owned.cursor->origin().epoch;
    any = true;
  }
  return any;
}

// As Consumption::deliver_in_turn() does.
void GroupConsumption::finish_large_batch(Owned& owned) {
  while (delivery_.is_quick() && delivery_.wanted() && owned.readable() && owned.cursor->in_batch() && deliver_pieces(owned)) {
    look_after_group();
    commit_when_due();
  }
  owned.cursor->release_memory();
}

GroupConsumption::Owned& GroupConsumption::owner_of(const PartitionCursor& cursor) {
  return *std::find_if(owned_.begin(), owned_.end(),
                       [&](const Owned& owned) { return owned.cursor && &*owned.cursor == &cursor; });
}

void GroupConsumption::before_delivery(PartitionCursor& cursor, Offset from, Offset next) {
  auto& owned = owner_of(cursor);
  if (!member_->still_owns(owned.partition)) {
    throw Error(ErrorCode::fenced,
                name_of(owned.partition) + ": the partition was lost to another member of group \"" + group_.name() + "\"");
  }
  if (options_.commit == CommitPolicy::before) {
    member_->commit(owned.partition, next, cursor.origin().epoch);
    owned.committed = next;
  }
  owned.arrivals.begin(delivery_, from, next);
}

void GroupConsumption::settle(bool exact) {
  const auto taken = delivery_.taken();
  for (auto& owned : owned_) {
    if (owned.lost) continue;
    owned.arrivals.settle(delivery_, taken, exact);
    if (owned.arrivals.arrived()) positions_[owned.partition] = *owned.arrivals.arrived();
  }
}

void GroupConsumption::commit(Owned& owned) {
  const auto& arrived = owned.arrivals.arrived();
  if (options_.commit == CommitPolicy::none || owned.lost || !arrived || owned.committed == arrived) return;
  try {
    member_->commit(owned.partition, *arrived, owned.epoch);
    owned.committed = arrived;
    owned.failure.clear();
  } catch (const Error& error) {
    if (owned.failure != error.what()) outcome_.fail(error);
    owned.failure = error.what();  // anything else than a loss may be over at the next try
    owned.lost = error.code() == ErrorCode::fenced;
    if (owned.lost) positions_.erase(owned.partition);
  }
}

void GroupConsumption::commit_all() {
  settle(true);
  for (auto& owned : owned_) commit(owned);
}

void GroupConsumption::commit_when_due() {
  const auto now = Clock::now();
  if (now - last_commit_ < options_.commit_interval) return;
  last_commit_ = now;
  commit_all();
}

// Gives up the partitions that others wait for, once what was read of them has arrived.
void GroupConsumption::release_retired() {
  if (std::none_of(owned_.begin(), owned_.end(), [](const Owned& owned) { return owned.revoked; })) return;
  settle(false);
  for (auto owned = owned_.begin(); owned != owned_.end();) {
    if (owned->revoked && !owned->under_way()) {
      commit(*owned);
      member_->release(owned->partition);
      owned = owned_.erase(owned);
    } else {
      ++owned;
    }
  }
}

// A pipe tells nobody when its reader takes something out of it.
void GroupConsumption::wait_until_taken() {
  for (settle(false); anything_under_way() && !stop_requested(); settle(false)) {
    delivery_.require_taker();
    commit_when_due();
    wait(short_wait);
  }
}

}  // namespace partlog::cmd

#include "arrivals.h"

#include <limits>

#include "partlog/error.h"

namespace partlog::cmd {

// How much they are, is known only later.
void Arrivals::begin(const Delivery& delivery, Offset from, Offset next) {
  under_way_.push_back({delivery.handed_on(), std::numeric_limits<std::uint64_t>::max(), from, next});
}

// What was nothing, because no record passed, belongs to what went before.
void Arrivals::end(const Delivery& delivery) {
  auto& mark = under_way_.back();
  mark.behind = delivery.handed_on();
  if (mark.before < mark.behind || under_way_.size() == 1) return;
  (under_way_.end() - 2)->next = mark.next;
  under_way_.pop_back();
}

bool Arrivals::deliver(Delivery& delivery, PartitionCursor& cursor) {
  const auto from = cursor.next();
  if (delivery.deliver(cursor)) {
    end(delivery);
    return true;
  }
  if (from < cursor.next()) {  // over a gap, or what the log start has overtaken
    begin(delivery, from, cursor.next());
    end(delivery);
  }
  return false;
}

void Arrivals::settle(Delivery& delivery, std::uint64_t taken, bool exact) {
  while (!under_way_.empty() && under_way_.front().behind <= taken) {
    arrived_ = under_way_.front().next;
    under_way_.pop_front();
  }
  if (!exact || under_way_.empty() || under_way_.front().before >= taken) return;
  const auto& mark = under_way_.front();
  if (mark.next - mark.from <= 1) return;  // not to be told apart, and perhaps too large to be held twice
  try {
    PartitionReader reader(*store_, *topic_, partition_, reading_);
    reader.seek(mark.from);
    arrived_ = delivery.first_not_taken(reader, topic_->name, mark.next, mark.before, taken);
  } catch (const Error&) {
    // What cannot be read any more comes again, or retention has it.
  }
}

}  // namespace partlog::cmd

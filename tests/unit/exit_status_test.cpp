#include "exit_status.h"

#include <gtest/gtest.h>

namespace partlog::cmd {
namespace {

TEST(ExitStatus, EachErrorCodeHasOne) {
  EXPECT_EQ(exit_status(ErrorCode::invalid_argument), 2);
  EXPECT_EQ(exit_status(ErrorCode::not_found), 1);
  EXPECT_EQ(exit_status(ErrorCode::already_exists), 1);
  EXPECT_EQ(exit_status(ErrorCode::io), 1);
  EXPECT_EQ(exit_status(ErrorCode::refused), 1);
  EXPECT_EQ(exit_status(ErrorCode::offset_out_of_range), 4);
  EXPECT_EQ(exit_status(ErrorCode::damaged), 5);
  EXPECT_EQ(exit_status(ErrorCode::busy), 6);
  EXPECT_EQ(exit_status(ErrorCode::not_enough_replicas), 7);
  EXPECT_EQ(exit_status(ErrorCode::fenced), 7);
}

TEST(ExitStatus, FirstFailureCountsButDamageWins) {
  Outcome outcome;
  EXPECT_EQ(outcome.status(), 0);
  outcome.fail(4);
  outcome.fail(1);
  EXPECT_EQ(outcome.status(), 4);
  outcome.fail(5);
  outcome.fail(6);
  EXPECT_EQ(outcome.status(), 5);
}

}  // namespace
}  // namespace partlog::cmd

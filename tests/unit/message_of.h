// The message of the Error that an action must throw.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "partlog/error.h"

namespace partlog::test {

template <class Action>
std::string message_of(ErrorCode code, Action action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace partlog::test

#include "base/time_text.h"

#include <gtest/gtest.h>

namespace partlog {
namespace {

TEST(TimeText, GoesThereAndBack) {
  EXPECT_EQ(iso_time({0}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(parse_iso_time("2026-01-31T12:00:00.007Z"), Timestamp{1'769'860'800'007});
  for (const std::int64_t ms : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{951'782'400'000}, std::int64_t{1'714'559'400'500},
                                std::int64_t{-62'167'219'200'000}, std::int64_t{253'402'300'799'999}}) {
    EXPECT_EQ(parse_iso_time(iso_time({ms})), Timestamp{ms}) << iso_time({ms});
  }
  EXPECT_EQ(iso_time({-62'167'219'200'000}), "0000-01-01T00:00:00.000Z");
  EXPECT_EQ(iso_time({253'402'300'799'999}), "9999-12-31T23:59:59.999Z");
}

TEST(TimeText, NothingElseIsATime) {
  const std::string good = "2026-01-31T12:00:00.007Z";
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'x', ' ', '+', '\0', '/', ';'}) {
      auto text = good;
      text[i] = c;
      EXPECT_FALSE(parse_iso_time(text)) << text;
    }
    EXPECT_FALSE(parse_iso_time(good.substr(0, i))) << i;
  }
  for (const char* text :
       {"2026-01-31T12:00:00.007Z ", "2026-02-29T00:00:00.000Z", "2026-02-30T00:00:00.000Z", "2026-13-01T00:00:00.000Z",
        "2026-00-01T00:00:00.000Z", "2026-01-00T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T00:60:00.000Z",
        "2026-01-01T00:00:60.000Z", "2026-01-01t00:00:00.000z", "2026-01-01T00:00:00.000+00:00"}) {
    EXPECT_FALSE(parse_iso_time(text)) << text;
  }
}

}  // namespace
}  // namespace partlog

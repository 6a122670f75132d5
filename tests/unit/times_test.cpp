#include "times.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "exit_status.h"

namespace partlog::cmd {
namespace {

constexpr Timestamp reference{1'714'559'400'500};  // 2024-05-01T10:30:00.500Z

std::int64_t ms(std::string_view text) { return parse_time(text, "--since", reference).value; }

TEST(Times, IsoDatesAndTimes) {
  EXPECT_EQ(ms("2024-05-01T10:30:00.500Z"), reference.value);
  EXPECT_EQ(ms("2024-05-01T10:30:00,5"), reference.value);
  EXPECT_EQ(ms("2024-05-01 12:30:00.5+02:00"), reference.value);
  EXPECT_EQ(ms("2024-05-01T08:00:00.5-0230"), reference.value);
  EXPECT_EQ(ms("2024-05-01T10:30"), reference.value - 500);
  EXPECT_EQ(ms("2024-05-01t11:30z"), reference.value - 500 + 3'600'000);
  EXPECT_EQ(ms("2024-05-01T11:30+01"), reference.value - 500);
  EXPECT_EQ(ms("2024-05-01"), 1'714'521'600'000);
  EXPECT_EQ(ms("1969-12-31T23:59:59.999Z"), -1);
  EXPECT_EQ(ms("2000-02-29"), 951'782'400'000);
  EXPECT_EQ(ms("2024-05-01T10:30:00.5009999Z"), reference.value);
}

TEST(Times, NumbersByTheirDigits) {
  EXPECT_EQ(ms("1714559400"), 1'714'559'400'000);
  EXPECT_EQ(ms("1714559400500"), reference.value);
  EXPECT_EQ(ms("@0"), 0);
  EXPECT_EQ(ms("@1.5"), 1500);
  EXPECT_EQ(ms("@-1.5"), -1500);
  EXPECT_EQ(ms("@171455940000"), 171'455'940'000'000);
  EXPECT_EQ(parse_time_or_ms("50", "--offset", reference).value, 50);
  EXPECT_EQ(parse_time_or_ms("1714559400", "--offset", reference).value, 1'714'559'400);
}

TEST(Times, DurationsBackFromNow) {
  EXPECT_EQ(ms("-1h30m"), reference.value - 5'400'000);
  EXPECT_EQ(ms("-0"), reference.value);
  EXPECT_EQ(ms("P1DT2H"), reference.value - 26 * 3'600'000);
  EXPECT_EQ(ms("-P1D"), reference.value - 24 * 3'600'000);
  EXPECT_EQ(ms("PT1.5S"), reference.value - 1500);
  EXPECT_EQ(ms("P1W"), reference.value - 7 * 24 * 3'600'000LL);
}

TEST(Times, EverythingElseIsAUsageError) {
  for (const char* text : {"",
                           "now",
                           "123",
                           "12345678901",
                           "2024",
                           "2024-05",
                           "2024-13-01",
                           "2023-02-29",
                           "2024-05-01T",
                           "2024-05-01T24:00",
                           "2024-05-01T10:60",
                           "2024-05-01T10:30:60",
                           "2024-05-01T10:30:00.",
                           "2024-05-01T10:30Zx",
                           "2024-05-01Z",
                           "2024-05-01T10:30+24",
                           "2024-05-01T10:30+1",
                           "@",
                           "@1.",
                           "@1x",
                           "@9223372036854775807",
                           "-",
                           "-1",
                           "-1x",
                           "-30m1h",
                           "1h",
                           "P",
                           "PT",
                           "P1DT",
                           "P1H",
                           "PT1D",
                           "P1M",
                           "PT1S2S",
                           "P1.5D",
                           "99999999999999999999"}) {
    EXPECT_THROW(ms(text), UsageError) << text;
  }
}

std::string complaint(std::string_view text) {
  try {
    ms(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Times, OutOfRangeIsSaid) {
  for (const char* text :
       {"@9223372036854775807", "@99999999999999999999", "-99999999999999d", "P99999999999999W", "-99999999999999999999s"}) {
    EXPECT_EQ(complaint(text),
              "--since: '" + std::string(text) + "' is out of range: times go 292 million years from 1970 at most");
  }
  EXPECT_THROW(parse_time_or_ms("99999999999999999999", "--offset", reference), UsageError);
  EXPECT_EQ(parse_duration("36500d", "--linger"), std::chrono::hours(24 * 36500));
  for (const char* text : {"36501d", "99999999999999999d"}) {
    try {
      parse_duration(text, "--linger");
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), "--linger: '" + std::string(text) + "' is out of range: 36500d at most");
    }
  }
}

TEST(Times, LocalTimeWhereAskedFor) {
  ::setenv("TZ", "EST5EDT", 1);
  ::tzset();
  EXPECT_EQ(parse_time("2024-05-01T06:30:00.5", "--since", reference, {true}), reference);
  EXPECT_EQ(parse_time("2024-05-01T10:30:00.5Z", "--since", reference, {true}), reference);
  ::unsetenv("TZ");
  ::tzset();
}

TEST(Times, Durations) {
  using std::chrono::milliseconds;
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("1h30m"), milliseconds(5'400'000));
  EXPECT_EQ(parse_duration("2d3h4m5s6ms"), milliseconds(183'845'006));
  EXPECT_EQ(parse_duration("0"), milliseconds(0));
  EXPECT_EQ(parse_duration("010s"), milliseconds(10'000));
  for (const char* text : {"", "5", "s", "1.5s", "-1s", "1s1m", "1s1s", "1x", "1m s", "99999999999999999d"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Times, Format) {
  EXPECT_EQ(format_time(reference), "2024-05-01T10:30:00.500Z");
  EXPECT_EQ(format_time({0}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_time({-1}), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(format_time({951'782'400'000}), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(format_time({253'402'300'800'000}), "+10000-01-01T00:00:00.000Z");
}

}  // namespace
}  // namespace partlog::cmd

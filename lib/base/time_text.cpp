#include "base/time_text.h"

#include <charconv>
#include <chrono>
#include <cstdio>

namespace partlog {

std::string iso_time(Timestamp time) {
  using namespace std::chrono;
  const sys_time<milliseconds> at{milliseconds(time.value)};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss clock(at - day);
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                                 static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                                 static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return {text, static_cast<std::size_t>(size)};
}

std::optional<Timestamp> parse_iso_time(std::string_view text) {
  using namespace std::chrono;
  constexpr std::string_view form = "0000-00-00T00:00:00.000Z";
  if (text.size() != form.size()) return std::nullopt;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (form[i] == '0' ? !is_digit : text[i] != form[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t from, std::size_t size) {
    int value = 0;
    std::from_chars(text.data() + from, text.data() + from + size, value);
    return value;
  };
  const year_month_day date(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                            day(static_cast<unsigned>(number(8, 2))));
  const auto time = hours(number(11, 2)) + minutes(number(14, 2)) + seconds(number(17, 2)) + milliseconds(number(20, 3));
  const Timestamp result{(sys_days(date).time_since_epoch() + time) / milliseconds(1)};
  if (!date.ok() || iso_time(result) != text) return std::nullopt;  // hour 24, second 60
  return result;
}

}  // namespace partlog

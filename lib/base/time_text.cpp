#include "base/time_text.h"

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

}  // namespace partlog

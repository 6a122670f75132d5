#include "times.h"

#include <ctime>

#include "exit_status.h"
#include "text.h"

namespace partlog::cmd {
namespace {

constexpr std::int64_t ms_per_second = 1000;
constexpr std::int64_t ms_per_minute = 60 * ms_per_second;
constexpr std::int64_t ms_per_hour = 60 * ms_per_minute;
constexpr std::int64_t ms_per_day = 24 * ms_per_hour;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number that milliseconds in 64 bits cannot hold.
struct OutOfRange {};

// Reads a text from left to right; every function takes what it names off the front, or returns nothing and takes nothing.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take_one_of(std::string_view set, char& c) {
    if (rest_.empty() || set.find(rest_.front()) == std::string_view::npos) return false;
    c = rest_.front();
    rest_.remove_prefix(1);
    return true;
  }

  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // `count` digits exactly; 0: one or more.
  std::optional<std::int64_t> number(std::size_t count = 0) {
    std::size_t size = 0;
    while (size < rest_.size() && is_digit(rest_[size]) && (count == 0 || size < count)) ++size;
    if (size == 0 || (count != 0 && size != count)) return std::nullopt;
    auto value = parse_decimal(rest_.substr(0, size));
    if (!value) throw OutOfRange();
    rest_.remove_prefix(size);
    return value;
  }

  // `.5` or `,5` to milliseconds, cut off below; 0 if there is no fraction, nullopt if there is only the point.
  std::optional<std::int64_t> fraction_ms() {
    char point;
    if (!take_one_of(".,", point)) return 0;
    if (rest_.empty() || !is_digit(rest_.front())) return std::nullopt;
    std::int64_t ms = 0;
    for (std::int64_t unit = 100; !rest_.empty() && is_digit(rest_.front()); unit /= 10, rest_.remove_prefix(1)) {
      ms += unit * (rest_.front() - '0');
    }
    return ms;
  }

 private:
  std::string_view rest_;
};

// Adds count * unit.
void add_to(std::int64_t& sum, std::int64_t count, std::int64_t unit) {
  std::int64_t product;
  if (__builtin_mul_overflow(count, unit, &product) || __builtin_add_overflow(sum, product, &sum)) throw OutOfRange();
}

// Days from 1970-01-01 in the proleptic Gregorian calendar, by 400-year eras that start on March 1.
std::int64_t days_from_civil(std::int64_t year, unsigned month, unsigned day) {
  year -= month <= 2;
  std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  auto year_of_era = static_cast<unsigned>(year - era * 400);
  unsigned day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

struct Civil {
  std::int64_t year;
  unsigned month;
  unsigned day;
};

Civil civil_from_days(std::int64_t days) {
  days += 719468;
  std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  auto day_of_era = static_cast<unsigned>(days - era * 146097);
  unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  unsigned shifted_month = (5 * day_of_year + 2) / 153;
  unsigned month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
  return {year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) / 5 + 1};
}

bool is_date(std::int64_t year, std::int64_t month, std::int64_t day) {
  if (month < 1 || month > 12 || day < 1) return false;
  auto next = month == 12 ? days_from_civil(year + 1, 1, 1) : days_from_civil(year, static_cast<unsigned>(month + 1), 1);
  return day <= next - days_from_civil(year, static_cast<unsigned>(month), 1);
}

std::optional<std::int64_t> local_to_ms(std::int64_t days, std::int64_t ms_of_day) {
  Civil date = civil_from_days(days);
  std::tm fields{};
  fields.tm_year = static_cast<int>(date.year - 1900);
  fields.tm_mon = static_cast<int>(date.month) - 1;
  fields.tm_mday = static_cast<int>(date.day);
  fields.tm_sec = static_cast<int>(ms_of_day / ms_per_second);
  fields.tm_hour = fields.tm_sec / 3600;
  fields.tm_min = fields.tm_sec / 60 % 60;
  fields.tm_sec %= 60;
  fields.tm_isdst = -1;
  fields.tm_wday = -1;
  std::time_t seconds = std::mktime(&fields);
  if (seconds == -1 && fields.tm_wday == -1) return std::nullopt;
  return seconds * ms_per_second + ms_of_day % ms_per_second;
}

// `Z`, `+02`, `+0200` or `+02:00` to the distance from UTC.
std::optional<std::int64_t> take_zone(Cursor& in) {
  char sign;
  if (in.take('Z') || in.take('z')) return 0;
  if (!in.take_one_of("+-", sign)) return std::nullopt;
  auto hours = in.number(2);
  std::optional<std::int64_t> minutes = 0;
  if (in.take(':') || !in.done()) minutes = in.number(2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  std::int64_t distance = *hours * ms_per_hour + *minutes * ms_per_minute;
  return sign == '-' ? -distance : distance;
}

// `10:30` with optional seconds and fraction, to milliseconds of the day.
std::optional<std::int64_t> take_clock(Cursor& in) {
  auto hours = in.number(2);
  if (!hours || !in.take(':')) return std::nullopt;
  auto minutes = in.number(2);
  std::optional<std::int64_t> seconds = 0;
  std::optional<std::int64_t> ms = 0;
  if (in.take(':')) {
    seconds = in.number(2);
    ms = in.fraction_ms();
  }
  if (!minutes || !seconds || !ms || *hours > 23 || *minutes > 59 || *seconds > 59) return std::nullopt;
  return *hours * ms_per_hour + *minutes * ms_per_minute + *seconds * ms_per_second + *ms;
}

std::optional<std::int64_t> parse_iso(std::string_view text, TimeZone zone) {
  Cursor in(text);
  auto year = in.number(4);
  if (!year || !in.take('-')) return std::nullopt;
  auto month = in.number(2);
  if (!month || !in.take('-')) return std::nullopt;
  auto day = in.number(2);
  if (!day || !is_date(*year, *month, *day)) return std::nullopt;
  std::int64_t days = days_from_civil(*year, static_cast<unsigned>(*month), static_cast<unsigned>(*day));
  std::int64_t ms_of_day = 0;
  char separator;
  if (in.take_one_of("Tt ", separator)) {
    auto clock = take_clock(in);
    if (!clock) return std::nullopt;
    ms_of_day = *clock;
    if (!in.done()) {
      auto distance = take_zone(in);
      if (!distance || !in.done()) return std::nullopt;
      return days * ms_per_day + ms_of_day - *distance;
    }
  }
  if (!in.done()) return std::nullopt;
  return zone.local ? local_to_ms(days, ms_of_day) : days * ms_per_day + ms_of_day;
}

// `P1DT2H30M`; weeks, days, hours, minutes and seconds, the last with a fraction.
std::optional<std::int64_t> parse_iso_duration(std::string_view text) {
  Cursor in(text);
  if (!in.take('P')) return std::nullopt;
  std::int64_t sum = 0;
  std::int64_t previous = std::numeric_limits<std::int64_t>::max();
  bool in_time = false;
  bool any = false;
  while (!in.done()) {
    if (!in_time && in.take('T')) {
      in_time = true;
      any = false;
      continue;
    }
    auto count = in.number();
    auto ms = in.fraction_ms();
    if (!count || !ms) return std::nullopt;
    bool is_seconds = false;
    std::int64_t unit;
    if (in_time && in.take('S')) {
      unit = ms_per_second;
      is_seconds = true;
    } else if (in_time && in.take('M')) {
      unit = ms_per_minute;
    } else if (in_time && in.take('H')) {
      unit = ms_per_hour;
    } else if (!in_time && in.take('D')) {
      unit = ms_per_day;
    } else if (!in_time && in.take('W')) {
      unit = 7 * ms_per_day;
    } else {
      return std::nullopt;
    }
    if (unit >= previous || (*ms != 0 && !is_seconds)) return std::nullopt;
    add_to(sum, *count, unit);
    add_to(sum, *ms, 1);
    previous = unit;
    any = true;
  }
  return any ? std::optional(sum) : std::nullopt;
}

std::optional<std::int64_t> parse_epoch_seconds(std::string_view text) {
  Cursor in(text);
  if (!in.take('@')) return std::nullopt;
  bool negative = in.take('-');
  auto seconds = in.number();
  auto ms = in.fraction_ms();
  std::int64_t value = 0;
  if (!seconds || !ms || !in.done()) return std::nullopt;
  add_to(value, *seconds, ms_per_second);
  add_to(value, *ms, 1);
  return negative ? -value : value;
}

std::optional<std::int64_t> read_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t ms;
  };
  static constexpr Unit units[] = {{"ms", 1}, {"s", ms_per_second}, {"m", ms_per_minute}, {"h", ms_per_hour}, {"d", ms_per_day}};
  if (text == "0") return 0;
  Cursor in(text);
  std::int64_t sum = 0;
  std::int64_t previous = std::numeric_limits<std::int64_t>::max();
  while (!in.done()) {
    auto count = in.number();
    const Unit* unit = std::begin(units);
    while (unit != std::end(units) && !in.take_word(unit->name)) ++unit;
    if (!count || unit == std::end(units) || unit->ms >= previous) return std::nullopt;
    add_to(sum, *count, unit->ms);
    previous = unit->ms;
  }
  return text.empty() ? std::nullopt : std::optional(sum);
}

std::optional<std::int64_t> parse_back_from_now(std::string_view text, Timestamp now) {
  bool minus = text.starts_with('-');
  if (minus) text.remove_prefix(1);
  std::optional<std::int64_t> back = parse_iso_duration(text);
  if (!back && minus) back = read_duration(text);
  return back ? std::optional(now.value - *back) : std::nullopt;
}

std::optional<std::int64_t> read_time(std::string_view text, Timestamp now, TimeZone zone) {
  if (text.starts_with('@')) return parse_epoch_seconds(text);
  if (text.starts_with('-') || text.starts_with('P')) return parse_back_from_now(text, now);
  return parse_iso(text, zone);
}

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  try {
    auto ms = read_duration(text);
    return ms ? std::optional(std::chrono::milliseconds(*ms)) : std::nullopt;
  } catch (const OutOfRange&) {
    return std::nullopt;
  }
}

std::chrono::milliseconds parse_duration(std::string_view text, std::string_view option) {
  constexpr std::int64_t longest = 36500 * ms_per_day;  // clocks count nanoseconds in 64 bits
  std::optional<std::int64_t> ms;
  try {
    ms = read_duration(text);
  } catch (const OutOfRange&) {
    ms = std::numeric_limits<std::int64_t>::max();
  }
  std::string value = "'" + std::string(text) + "'";
  if (!ms) throw UsageError(std::string(option) + " needs a duration such as 500ms, 10s or 1h30m, not " + value);
  if (*ms > longest) throw UsageError(std::string(option) + ": " + value + " is out of range: 36500d at most");
  return std::chrono::milliseconds(*ms);
}

Timestamp parse_time(std::string_view text, std::string_view option, Timestamp now, TimeZone zone) {
  if (is_number(text)) {
    auto number = parse_decimal(text);
    if (text.size() == 10) return {*number * ms_per_second};
    if (text.size() == 13) return {*number};
    throw UsageError(std::string(option) + ": a bare number is a time only with 10 digits (seconds) or 13 (milliseconds), not '" +
                     std::string(text) + "'; write @" + std::string(text) + " for seconds since 1970");
  }
  try {
    if (auto ms = read_time(text, now, zone)) return {*ms};
  } catch (const OutOfRange&) {
    throw UsageError(std::string(option) + ": '" + std::string(text) +
                     "' is out of range: times go 292 million years from 1970 at most");
  }
  throw UsageError(std::string(option) + ": '" + std::string(text) +
                   "' is not a time: give 2024-05-01T10:30:00Z, @SECONDS, or a duration back from now such as -1h30m");
}

Timestamp parse_time_or_ms(std::string_view text, std::string_view option, Timestamp now, TimeZone zone) {
  if (is_number(text)) {
    if (auto number = parse_decimal(text)) return {*number};
    throw UsageError(std::string(option) + ": '" + std::string(text) + "' is out of range for milliseconds since 1970");
  }
  return parse_time(text, option, now, zone);
}

std::string format_time(Timestamp time) {
  std::int64_t days = time.value / ms_per_day - (time.value % ms_per_day < 0);
  std::int64_t ms = time.value - days * ms_per_day;
  Civil date = civil_from_days(days);
  std::string out;
  auto padded = [&](std::int64_t value, std::size_t width) {
    std::string digits = std::to_string(value);
    if (digits.size() < width) out.append(width - digits.size(), '0');
    out += digits;
  };
  if (date.year < 0 || date.year > 9999) out += date.year < 0 ? '-' : '+';
  padded(date.year < 0 ? -date.year : date.year, 4);
  out += '-';
  padded(date.month, 2);
  out += '-';
  padded(date.day, 2);
  out += 'T';
  padded(ms / ms_per_hour, 2);
  out += ':';
  padded(ms / ms_per_minute % 60, 2);
  out += ':';
  padded(ms / ms_per_second % 60, 2);
  out += '.';
  padded(ms % ms_per_second, 3);
  return out + 'Z';
}

Timestamp now() {
  using namespace std::chrono;
  return {duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count()};
}

}  // namespace partlog::cmd

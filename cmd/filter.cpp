#include "filter.h"

#include <regex.h>

#include <algorithm>
#include <deque>

#include "exit_status.h"

namespace partlog::cmd {

std::pair<std::string, std::optional<std::string>> parse_header(const std::string& text) {
  std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, std::nullopt};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// Compiled patterns. The bytes may hold NUL: their end is given by REG_STARTEND. No locale is set, so every byte is a character.
class Filter::Patterns {
 public:
  Patterns(const std::vector<std::string>& texts, bool invert) : invert_(invert) {
    for (const auto& text : texts) {
      int error = ::regcomp(&compiled_.emplace_back(), text.c_str(), REG_EXTENDED | REG_NOSUB);
      if (error == 0) continue;
      char reason[200];
      ::regerror(error, &compiled_.back(), reason, sizeof reason);
      compiled_.pop_back();
      free();
      throw UsageError("--grep: '" + text + "' is no regular expression: " + reason);
    }
  }
  ~Patterns() { free(); }
  Patterns(const Patterns&) = delete;
  Patterns& operator=(const Patterns&) = delete;

  bool pass(Bytes value) const {
    bool found = std::any_of(compiled_.begin(), compiled_.end(), [&](const regex_t& pattern) { return matches(pattern, value); });
    return found != invert_;
  }

 private:
  static bool matches(const regex_t& pattern, Bytes value) {
    if (value.is_null()) return false;
    regmatch_t range{};
    range.rm_so = 0;
    range.rm_eo = static_cast<regoff_t>(value.size());
    return ::regexec(&pattern, value.data(), 1, &range, REG_STARTEND) == 0;
  }

  void free() {
    for (auto& pattern : compiled_) ::regfree(&pattern);
  }

  std::deque<regex_t> compiled_;
  bool invert_;
};

Filter::Filter(const Conditions& conditions) : keys_(conditions.keys) {
  for (const auto& header : conditions.headers) headers_.push_back(parse_header(header));
  if (!conditions.patterns.empty()) patterns_ = std::make_unique<Patterns>(conditions.patterns, conditions.invert_patterns);
}

Filter::~Filter() = default;
Filter::Filter(Filter&&) noexcept = default;

bool Filter::passes_all() const { return keys_.empty() && headers_.empty() && !patterns_; }

bool Filter::passes(const Record& record) const {
  if (!keys_.empty() && (record.key.is_null() || std::find(keys_.begin(), keys_.end(), record.key.view()) == keys_.end())) {
    return false;
  }
  return has_headers(record.headers) && (!patterns_ || patterns_->pass(record.value));
}

bool Filter::has_headers(HeaderBlock headers) const {
  return std::all_of(headers_.begin(), headers_.end(), [&](const auto& wanted) {
    HeaderCursor cursor(headers);
    Header header;
    while (cursor.next(header)) {
      if (header.name == wanted.first && (!wanted.second || header.value == Bytes(*wanted.second))) return true;
    }
    return false;
  });
}

std::span<const Record> Filter::passing(std::span<const Record> records) {
  if (passes_all()) return records;
  kept_.clear();
  std::copy_if(records.begin(), records.end(), std::back_inserter(kept_), [&](const Record& record) { return passes(record); });
  return kept_;
}

}  // namespace partlog::cmd

#include <algorithm>
#include <numeric>

#include "partlog/store.h"

namespace partlog {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Levenshtein distance, for which large and small letters are the same.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto substituted = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> similar_names(std::string_view name, const std::vector<std::string>& among) {
  constexpr std::size_t most = 3;
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto& other : among) {
    const auto distance = edit_distance(name, other);
    // Of a name with one or two letters something must be left.
    const auto shorter = std::min(name.size(), other.size());
    const auto near = shorter == 0 ? 0 : shorter < 3 ? shorter - 1 : std::max<std::size_t>(2, name.size() / 3);
    const bool begins_alike = name.size() >= 3 && other.starts_with(name);
    if (distance <= near || begins_alike) found.emplace_back(distance, other);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [distance, other] : found) {
    if (names.size() < most) names.push_back(std::move(other));
  }
  return names;
}

}  // namespace partlog

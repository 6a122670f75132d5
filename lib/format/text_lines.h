// What the parsers of small text files share. Private to lib/format.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace partlog::format {

// The lines of a text, without their newlines. A last line may lack its newline.
class TextLines {
 public:
  TextLines(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  bool next(std::string_view& line) {
    ++number_;
    if (rest_.empty()) return false;
    const std::size_t size = rest_.find('\n');
    line = rest_.substr(0, size);
    rest_.remove_prefix(size == std::string_view::npos ? rest_.size() : size + 1);
    return true;
  }

  // Throws Error(damaged) that names the path and the line that next() looked at last.
  [[noreturn]] void damaged(const std::string& what) const;

 private:
  std::string_view rest_;
  const std::string& path_;
  std::size_t number_ = 0;
};

}  // namespace partlog::format

// LineReader: the lines of a text, one by one, without a copy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nearfield::client {

// Lines end with "\n" or "\r\n"; the last one may end with the text. A byte order mark at the start
// is skipped.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {
    if (rest_.substr(0, 3) == "\xef\xbb\xbf") rest_.remove_prefix(3);
  }

  // Returns false at the end.
  bool Next(std::string_view* line) {
    if (rest_.empty()) return false;
    ++number_;
    const size_t end = rest_.find('\n');
    *line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
    return true;
  }

  // As Next(), without the lines that hold no JSON: those of white space only.
  bool NextJson(std::string_view* line) {
    while (Next(line)) {
      if (line->find_first_not_of(" \t\r") != std::string_view::npos) return true;
    }
    return false;
  }

  // Returns the number of the last line that Next() returned, from 1; 0 before the first.
  uint64_t number() const { return number_; }

  // Returns "line 7": the place in messages.
  std::string place() const { return "line " + std::to_string(number_); }

 private:
  std::string_view rest_;
  uint64_t number_ = 0;
};

}  // namespace nearfield::client

// Text output for people: tables, sizes, times, and untrusted bytes made safe for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nearfield::client {

// Returns the text in a form that is safe for a terminal. Control characters (which could control
// it) and malformed UTF-8 become '?'; line ends and tabs become spaces.
std::string Printable(std::string_view bytes);

// Returns the number of UTF-8 characters, as an estimate of the columns.
size_t Width(std::string_view text);

// Returns at most `width_max` characters; a shortened text ends in "...".
std::string Shortened(std::string_view text, size_t width_max);

std::string HumanBytes(double bytes);  // "512 B", "1.5 GB"; powers of 1000
std::string Grouped(uint64_t number);  // "1,000,000"
std::string HumanSeconds(
    double seconds);  // "850 us", "1.25 ms", "3.2 s", "2:05" (minutes), "1:02:05" (hours)

std::string TimeText(int64_t unix_s);  // "2024-05-17 09:30:00", in UTC

// A table: rows of cells under a header, with columns padded to their widest cell. Replaces
// unprintable characters in cells.
class Table {
 public:
  // A name is a column that is aligned to the left; Right(name) is one aligned to the right.
  struct Column {
    // NOLINTBEGIN(google-explicit-constructor)
    Column(const char* text) : name(text) {}
    Column(std::string text) : name(std::move(text)) {}
    // NOLINTEND(google-explicit-constructor)

    std::string name;
    bool right = false;
  };
  static Column Right(const char* name) {
    Column column(name);
    column.right = true;
    return column;
  }

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Requires: one cell per column.
  void Add(const std::vector<std::string>& cells);
  // Lines end in "\n"; the last column is not padded.
  std::string ToString() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nearfield::client

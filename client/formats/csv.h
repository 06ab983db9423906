// Comma-separated values (RFC 4180), UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nearfield::client {

struct CsvCell {
  std::string text;
  bool quoted = false;
};

// Records end with "\n" or "\r\n"; a cell in quotes may hold commas, line ends, and "" for a quote.
// The first record has the names of the columns, and all others have as many cells. Empty lines are
// skipped; only in a file of one column, an empty line after the first record is a record. A byte
// order mark at the start is skipped.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text);

  // Reads the next record; returns false at the end. Errors: InvalidArgument (a quote that is not
  // closed, or in the middle of a cell; another number of cells); then nothing more can be read.
  absl::StatusOr<bool> Next(std::vector<CsvCell>* cells);

  // Returns "line 7": the line where the last record begins.
  std::string place() const;

 private:
  absl::StatusOr<bool> TakeRecord(std::vector<CsvCell>* cells);
  absl::Status TakeQuoted(CsvCell* cell);

  std::string_view rest_;
  uint64_t line_ = 1;         // the line of the unread part
  uint64_t record_line_ = 0;  // the line where the last record began
  size_t columns_count_ = 0;  // 0 before the first record
};

}  // namespace nearfield::client

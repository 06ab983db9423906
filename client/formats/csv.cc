#include "client/formats/csv.h"

#include <algorithm>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

bool IsEmptyLine(const std::vector<CsvCell>& cells) {
  return cells.size() == 1 && cells[0].text.empty() && !cells[0].quoted;
}

}  // namespace

CsvReader::CsvReader(std::string_view text) : rest_(text) {
  if (rest_.substr(0, 3) == "\xef\xbb\xbf") rest_.remove_prefix(3);
}

std::string CsvReader::place() const { return Cat("line ", record_line_); }

absl::Status CsvReader::TakeQuoted(CsvCell* cell) {
  cell->quoted = true;
  rest_.remove_prefix(1);
  for (;;) {
    const size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      return absl::InvalidArgumentError("a quote that is not closed");
    }
    const std::string_view part = rest_.substr(0, quote);
    line_ += static_cast<uint64_t>(std::count(part.begin(), part.end(), '\n'));
    cell->text += part;
    rest_.remove_prefix(quote + 1);
    if (rest_.empty() || rest_.front() != '"') return absl::OkStatus();
    cell->text += '"';
    rest_.remove_prefix(1);
  }
}

absl::StatusOr<bool> CsvReader::Next(std::vector<CsvCell>* cells) {
  do {
    NF_ASSIGN_OR_RETURN(const bool there, TakeRecord(cells));
    if (!there) return false;
  } while (columns_count_ != 1 && IsEmptyLine(*cells));
  if (columns_count_ == 0) columns_count_ = cells->size();
  if (cells->size() == columns_count_) return true;
  return absl::InvalidArgumentError(
      Cat(cells->size(), " cells, the first line has ", columns_count_));
}

absl::StatusOr<bool> CsvReader::TakeRecord(std::vector<CsvCell>* cells) {
  cells->clear();
  if (rest_.empty()) return false;
  record_line_ = line_;
  for (;;) {
    CsvCell& cell = cells->emplace_back();
    if (!rest_.empty() && rest_.front() == '"') {
      if (const absl::Status status = TakeQuoted(&cell); !status.ok()) return status;
    } else {
      const size_t end = std::min(rest_.find_first_of(",\n\""), rest_.size());
      cell.text = std::string(rest_.substr(0, end));
      rest_.remove_prefix(end);
    }
    const bool line_ends = rest_.empty() || rest_.front() == '\n';
    if (line_ends && !cell.quoted && !cell.text.empty() && cell.text.back() == '\r') {
      cell.text.pop_back();
    }
    if (rest_ == "\r" || rest_.starts_with("\r\n")) rest_.remove_prefix(1);  // after a quote
    if (rest_.empty()) return true;
    const char c = rest_.front();
    if (c != ',' && c != '\n') {
      return absl::InvalidArgumentError(
          Cat("cell ", cells->size(), ": a quote in the middle; write the whole cell in quotes"));
    }
    rest_.remove_prefix(1);
    if (c == ',') continue;
    ++line_;
    return true;
  }
}

}  // namespace nearfield::client

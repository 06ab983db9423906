// AttributeFile: attributes in a file separate from the vectors: .jsonl with one JSON object per
// row, or .csv with the names in its first line. The first line of a pipe shows which of them it
// is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/formats/attribute_reader.h"
#include "client/formats/csv.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"

namespace nearfield::client {

class AttributeFile {
 public:
  // Reads the file once and checks every row. Members and columns that are not attributes are
  // ignored, so a file of payloads can also be a file of attributes. Errors: NotFound;
  // InvalidArgument (names file, line and reason).
  static absl::StatusOr<AttributeFile> Open(const std::string& path,
                                            const std::vector<AttributeSpec>& specs);

  uint64_t rows_count() const { return rows_count_; }
  // For each attribute, the number of rows with a value.
  const std::vector<uint64_t>& rows_with_value() const { return rows_with_value_; }

  // Begins again with the first row.
  void Rewind();
  // Returns the next rows. Requires: at least rows_count rows are left.
  std::vector<AttributeColumn> Next(uint64_t rows_count);

 private:
  AttributeFile(MappedFile file, const std::vector<AttributeSpec>& specs);
  absl::Status Scan(const std::vector<AttributeSpec>& specs);
  absl::Status ReadHeader(const std::vector<AttributeSpec>& specs);
  // Returns false at the end.
  absl::StatusOr<bool> ReadRow(AttributeReader* reader);
  std::string place() const { return csv_ ? csv_->place() : lines_.place(); }

  MappedFile file_;
  AttributeReader reader_;
  LineReader lines_;
  std::optional<CsvReader> csv_;  // absent: JSON lines
  std::vector<CsvCell> cells_;
  std::vector<size_t> columns_;  // CSV columns of the attributes
  uint64_t rows_count_ = 0;
  std::vector<uint64_t> rows_with_value_;
};

}  // namespace nearfield::client

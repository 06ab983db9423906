// UpdateFile: changes of rows that exist, in JSON lines: {"id": 7, "year": 2020, "tags": null}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/attribute_reader.h"
#include "client/formats/jsonl.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"
#include "nearfield/client/update.h"

namespace nearfield::client {

// Rows, and an update with an entry for each.
struct UpdateRows {
  IdColumn ids;
  RowUpdate update;
};

class UpdateFile {
 public:
  // Opens a file, a pipe, or "-" for standard input. Reads it once and checks every line:
  // ParseJsonUpdate (jsonl.h), with ids of that type, each once. A member that is absent keeps the
  // value of the row, null removes it. Errors: NotFound; InvalidArgument (names file, place and
  // reason; also for a file without a row).
  static absl::StatusOr<UpdateFile> Open(const std::string& path, IdType id_type,
                                         const std::vector<AttributeSpec>& specs);

  uint64_t rows_count() const { return rows_count_; }

  // Returns the next rows: at least one, at most rows_max, and no more after their lines have
  // reached bytes_max. Requires: a row is left. Errors: the file has changed since Open.
  absl::StatusOr<UpdateRows> Next(size_t rows_max, uint64_t bytes_max);

 private:
  UpdateFile(MappedFile file, IdType id_type, const std::vector<AttributeSpec>& specs);
  absl::Status Scan();
  // Reads one row and adds its attributes to the reader.
  absl::StatusOr<JsonRow> Read(std::string_view line);

  MappedFile file_;
  IdType id_type_;
  std::vector<AttributeSpec> specs_;
  AttributeReader reader_;
  LineReader lines_;
  uint64_t rows_count_ = 0;
};

}  // namespace nearfield::client

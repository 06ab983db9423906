// PayloadFile: a .jsonl file of payloads, one JSON value per row, stored as PayloadBytes (jsonl.h).
// Scan checks and counts all lines; Next then returns them one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/formats/lines.h"
#include "client/formats/mapped_file.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

class PayloadFile {
 public:
  // Reads the file once and checks each line. If `id_field` is not empty, reads the ids from the
  // member of that name.
  //   id_type: of the collection; absent: the type of the first row.
  // Errors: NotFound; InvalidArgument (names file, line and reason).
  static absl::StatusOr<PayloadFile> Open(const std::string& path, const std::string& id_field,
                                          std::optional<IdType> id_type);

  uint64_t rows_count() const { return rows_count_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  const IdColumn& ids() const { return ids_; }  // empty without an id_field

  // Begins again with the first row.
  void Rewind() { lines_ = LineReader(file_.bytes().bytes); }
  // Returns the next row's payload. Requires: rows are left.
  std::string Next();

 private:
  explicit PayloadFile(MappedFile file) : file_(std::move(file)), lines_(file_.bytes().bytes) {}
  absl::Status Scan(const std::string& id_field, std::optional<IdType> id_type);

  MappedFile file_;
  LineReader lines_;
  uint64_t rows_count_ = 0;
  uint64_t payload_bytes_ = 0;
  IdColumn ids_;
};

}  // namespace nearfield::client

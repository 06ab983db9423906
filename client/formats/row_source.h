// RowSource: rows to upload. Reads vectors, ids and payloads from one or more files, in order, in
// batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/vector_file.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Columns of the same length.
struct RowBatch {
  IdColumn ids;
  std::string vectors;                // rows * dim * ElementBytes(dtype)
  std::vector<std::string> payloads;  // none, or one per row
  std::vector<AttributeColumn> attributes;
};

class RowSource {
 public:
  // Known and exact before the first row is read.
  struct Shape {
    uint64_t rows_count = 0;
    uint64_t payload_bytes = 0;
    uint32_t dim = 0;
    DataType dtype = DataType::kFloat32;
    IdType id_type = IdType::kUint64;
    uint64_t zero_rows_count = 0;  // all of their values are 0
    // For each attribute of the options, the number of rows with a value; empty if none are read.
    std::vector<uint64_t> rows_with_attribute;
  };

  virtual ~RowSource() = default;
  virtual const Shape& shape() const = 0;

  // Begins again with the first row, even after an error.
  virtual void Rewind() = 0;
  // Replaces `batch` by the next rows: at least one, and no more after they have reached bytes_max;
  // no row at the end.
  virtual absl::Status Next(uint64_t bytes_max, RowBatch* batch) = 0;
};

struct RowSourceOptions {
  std::string path;
  std::optional<FileFormat> format;  // absent: from the file name
  std::optional<DataType>
      dtype;  // binary: see ParseLayout. A text: the type to round to; absent: float32
  // Of the collection; absent: the type in the files, and strings in a .csv file, which shows none.
  std::optional<IdType> id_type;
  std::optional<uint32_t> dim;            // of the collection, which the rows of a text must have
  std::string ids_path;                   // a separate file of ids (id_file.h)
  std::string payloads_path;              // .jsonl, one JSON value per row
  std::string id_field;                   // the member of those values that holds the id
  std::vector<AttributeSpec> attributes;  // declared by the collection; rows may have them
  std::string attributes_path;  // .jsonl or .csv, for a binary file; a text of rows has its own
};

// Opens the files, and reads each completely once, so that a bad line or row is found before
// anything is sent. Vectors of binary files stay on disk until their batch; ids are held in memory.
// Rows without ids get 0, 1, 2, ... Errors: NotFound; InvalidArgument (names file, place and
// reason).
absl::StatusOr<std::unique_ptr<RowSource>> OpenRowSource(const RowSourceOptions& options);

}  // namespace nearfield::client

// Query vectors from a file or from text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/formats/named_bytes.h"
#include "client/formats/vector_file.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

struct QuerySet {
  DataType dtype = DataType::kFloat32;
  std::vector<std::string> vectors;  // each one query, encoded
  uint64_t first_row = 0;            // number of the first query in its file
};

struct QueryFileOptions {
  std::string path;
  std::optional<FileFormat> format;  // absent: from the file name
  std::optional<DataType> dtype;     // binary: see ParseLayout
  std::optional<uint64_t> row;       // read only this one
};

// Reads the queries of a vector file; from a .jsonl file, the lines that ParseQueries accepts.
// Errors: NotFound; InvalidArgument (names file, place and reason; also if the requested row or any
// row is missing).
absl::StatusOr<QuerySet> ReadQueries(const QueryFileOptions& options);

// Parses queries from a JSON text, as fp32: an array of numbers; an array of such arrays; an object
// with a member "vector" or "embedding"; or one of these per line. Lengths may differ: the server
// knows the dimension.
absl::StatusOr<QuerySet> ParseQueries(const NamedBytes& text);

}  // namespace nearfield::client

// Query vectors from a file or from text.
#ifndef NEARFIELD_CLIENT_FORMATS_QUERY_SET_H_
#define NEARFIELD_CLIENT_FORMATS_QUERY_SET_H_

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
  uint64_t first_row = 0;            // the number that the first one has in its file
};

struct QueryFileOptions {
  std::string path;
  std::optional<FileFormat> format;  // absent: by the name's ending
  std::optional<DataType> dtype;     // binary: see ParseLayout
  std::optional<uint64_t> row;       // only this one
};

// Queries of a vector file; of a .jsonl file the lines that ParseQueries takes.
// Errors: NotFound; InvalidArgument naming file, place and reason, also where the row is not there
// or no row is.
absl::StatusOr<QuerySet> ReadQueries(const QueryFileOptions& options);

// Queries of a JSON text, as fp32: an array of numbers; an array of such arrays; an object with a
// member "vector"; or one of these a line. Lengths may differ: the server knows the dimension.
absl::StatusOr<QuerySet> ParseQueries(const NamedBytes& text);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_QUERY_SET_H_

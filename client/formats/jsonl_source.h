// Rows of a .jsonl file.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/formats/row_source.h"

namespace nearfield::client {

// Reads the file once to check every line and to learn the shape; see OpenRowSource.
absl::StatusOr<std::unique_ptr<RowSource>> OpenJsonlSource(const RowSourceOptions& options);

}  // namespace nearfield::client

// Rows of a file of text: .jsonl or .csv.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/formats/row_source.h"

namespace nearfield::client {

// Reads the file once to check every row and to learn the shape; see OpenRowSource. Requires: a
// format of text.
absl::StatusOr<std::unique_ptr<RowSource>> OpenTextSource(const RowSourceOptions& options,
                                                          FileFormat format);

}  // namespace nearfield::client

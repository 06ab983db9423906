// Cuts rows into blocks whose messages stay below a limit. Knows the wire format's sizes, and
// nothing else of it.
#ifndef NEARFIELD_CLIENT_CPP_BLOCK_CUTTER_H_
#define NEARFIELD_CLIENT_CPP_BLOCK_CUTTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Whether the columns agree. Errors: InvalidArgument naming the two lengths.
absl::Status CheckColumns(const RowBlock& rows);

// The end of the longest run of rows from `begin` on that fits a block of bytes_max bytes, at least
// one row long. Requires checked columns and begin < Count(*rows.ids). Errors: InvalidArgument
// where the row alone does not fit.
absl::StatusOr<size_t> BlockEnd(const RowBlock& rows, size_t begin, uint64_t bytes_max);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CPP_BLOCK_CUTTER_H_

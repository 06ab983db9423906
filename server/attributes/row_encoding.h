// Encoding of a row's attributes as bytes, which are stored next to the row.
//
// A row without attributes is an empty string. Otherwise the bytes are the version (1), then, for
// each attribute of the row in the order of the schema: its number; its type, plus 128 for a list;
// for a list, the number of values; the values. Counts, attribute numbers and lengths are LEB128 in
// the shortest form. An int64, double or timestamp is 8 bytes little-endian, a bool one byte 0 or
// 1, a keyword its length and bytes. Equal attributes have equal bytes. The store adds checksums.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nearfield/engine/bytes_column.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// Returns one value for each row. Requires: the block's columns are those of the schema.
// Errors: InvalidArgument (a row takes more than row_bytes_max; names the field of an upload and
// the row).
absl::StatusOr<BytesColumn> EncodeRowAttributes(const AttributeSchema& schema,
                                                const AttributeBlock& block,
                                                const AttributeLimits& limits);

// Returns the block from which the bytes were made, identical to the bit, without values of dropped
// attributes. Rejects any bytes that EncodeRowAttributes does not produce under this schema or one
// from before a drop. Current limits are not applied, because
// they may have changed.
// Errors: DataLoss (names the row and what is wrong).
absl::StatusOr<AttributeBlock> DecodeRowAttributes(const AttributeSchema& schema,
                                                   const BytesColumn& rows);

}  // namespace nearfield::server

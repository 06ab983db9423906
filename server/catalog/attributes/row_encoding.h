// The attributes of a row as bytes: what is stored beside the row.
//
// An empty string is a row without attributes. Else: the version (1), then for each attribute that
// the row has, in the order of the schema: its number; its type, plus 128 for a list; for a list
// how many values; the values. Counts, numbers of attributes and lengths are LEB128 in as few bytes
// as they take, int64, double and timestamp 8 bytes little-endian, a bool a byte 0 or 1, a keyword
// its length and bytes. So equal attributes are equal bytes. Checksums are the store's.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ROW_ENCODING_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ROW_ENCODING_H_

#include "absl/status/statusor.h"
#include "nearfield/engine/bytes_column.h"
#include "server/catalog/attributes/attribute_block.h"
#include "server/catalog/attributes/limits.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

// One value a row. The block's columns are those of the schema.
// Errors: InvalidArgument where a row takes more than row_bytes_max (names the row).
absl::StatusOr<BytesColumn> EncodeRowAttributes(const AttributeSchema& schema,
                                                const AttributeBlock& block,
                                                const AttributeLimits& limits);

// The block those bytes were made of, to the bit. Any bytes that are not what EncodeRowAttributes
// makes under this schema are refused; today's limits are not applied, as they may have been
// others. Errors: DataLoss (names the row and what is wrong).
absl::StatusOr<AttributeBlock> DecodeRowAttributes(const AttributeSchema& schema,
                                                   const BytesColumn& rows);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ROW_ENCODING_H_

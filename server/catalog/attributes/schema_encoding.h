// The schema of a collection as bytes: what is stored beside it.
//
// An empty string declares nothing. Else text: "1\n", the version, then a line for each attribute,
// in order: name, type and, of a list, "list", with a space between.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_SCHEMA_ENCODING_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_SCHEMA_ENCODING_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

std::string EncodeSchema(const AttributeSchema& schema);

// Errors: DataLoss for anything that EncodeSchema does not make; says which line.
absl::StatusOr<AttributeSchema> DecodeSchema(std::string_view encoded);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_SCHEMA_ENCODING_H_

// Encoding of a collection's schema as bytes, which are stored with the collection.
//
// A schema without attributes is an empty string. Otherwise it is text: "1\n", the version, then
// one line for each attribute, in order: name, type and those of the words "list", "expires" and
// "dropped" that apply, in this order, separated by spaces.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

std::string EncodeSchema(const AttributeSchema& schema);

// Errors: DataLoss for any bytes that EncodeSchema does not produce; names the line.
absl::StatusOr<AttributeSchema> DecodeSchema(std::string_view encoded);

}  // namespace nearfield::server

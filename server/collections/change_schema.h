// ChangeSchema: adds an attribute to a collection, or drops one.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/attributes/schema.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// Returns the schema to declare, given the one that is declared.
using NextSchema = absl::FunctionRef<absl::StatusOr<AttributeSchema>(const AttributeSchema& now)>;

// Makes the result of `next` the collection's schema, durably, as one epoch, which is returned.
// Errors: those of `next` and of the store; nothing changed then.
absl::StatusOr<uint64_t> ChangeSchema(const NamedCollection& named, NextSchema next);

}  // namespace nearfield::server

// Deletion of rows, by their ids or by a filter.
#pragma once

#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// Deletes the rows with these ids, or the chosen rows; durably if a store keeps them. Errors: those
// of the engine and the store.
absl::StatusOr<DeleteResult> DeleteRows(const NamedCollection& named, const IdColumn& ids);
// Deletes only chosen rows that `chosen.at` shows, so none of an upload that became visible later.
absl::StatusOr<DeleteResult> DeleteRows(const NamedCollection& named, const ChosenRows& chosen);

}  // namespace nearfield::server

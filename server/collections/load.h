// LoadCollection: loads a collection from the store into the engine at the server's start.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/collections/collection_attributes.h"
#include "server/store/store.h"

namespace nearfield::server {

// Returns the collection with all its rows, at its stored epoch. Adds their attributes to
// `attributes`, which must be empty.
// Errors: FailedPrecondition (it does not fit; reports needed and free bytes), DataLoss (names the
// file and the bytes), Cancelled, Unavailable.
absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(Engine& engine, const store::Store& from,
                                                           const store::StoredCollection& stored,
                                                           const store::LoadOptions& options,
                                                           CollectionAttributes* attributes);

}  // namespace nearfield::server

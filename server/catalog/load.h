// From the store into the engine: what a start does for each collection.
#ifndef NEARFIELD_SERVER_CATALOG_LOAD_H_
#define NEARFIELD_SERVER_CATALOG_LOAD_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/catalog/collection_attributes.h"
#include "server/store/store.h"

namespace nearfield::server {

// The collection with all its rows, at its epoch; their attributes go to `attributes`, empty until
// now. Errors: FailedPrecondition (it does not fit: says needed and free bytes), DataLoss (names
// the file and the bytes), Cancelled, Unavailable.
absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(Engine& engine, const store::Store& from,
                                                           const store::StoredCollection& stored,
                                                           const store::LoadOptions& options,
                                                           CollectionAttributes* attributes);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_LOAD_H_

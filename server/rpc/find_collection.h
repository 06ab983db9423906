// Finds collections for a call. The key of the call must cover them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/collections/catalog.h"
#include "server/security/access_control.h"

namespace nearfield::server {

// Finds a collection by its name or an alias. The key must cover both the given name and the name
// of the collection. The second is that of the collection that is returned, so an alias that moves
// meanwhile does no harm.
// Errors: PermissionDenied, and those of Catalog::Find.
absl::StatusOr<NamedCollectionPtr> FindCollection(const Catalog& catalog, const KeyPtr& key,
                                                  const std::string& name);
// As FindCollection, but also returns a collection that could not be loaded.
absl::StatusOr<NamedCollectionPtr> FindAnyCollection(const Catalog& catalog, const KeyPtr& key,
                                                     const std::string& name);

// Checks that the key may change what `name` means: if the name is in use, the key must cover its
// collection.
// Errors: PermissionDenied.
absl::Status CheckNameInUse(const Catalog& catalog, const KeyPtr& key, const std::string& name);

}  // namespace nearfield::server

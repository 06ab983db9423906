// Finds collections for a call, as far as its key covers them.
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

// Checks a name that a call changes: if it names a collection now, the key must cover that one.
// Errors: PermissionDenied.
absl::Status CheckNameInUse(const Catalog& catalog, const KeyPtr& key, const std::string& name);

}  // namespace nearfield::server

#include "server/rpc/find_collection.h"

#include "engine/base/status_macros.h"

namespace nearfield::server {

absl::StatusOr<NamedCollectionPtr> FindCollection(const Catalog& catalog, const KeyPtr& key,
                                                  const std::string& name) {
  ABSL_RETURN_IF_ERROR(CheckCollection(key, "collection", name));
  ABSL_ASSIGN_OR_RETURN(NamedCollectionPtr named, catalog.Find(name));
  ABSL_RETURN_IF_ERROR(CheckCollection(key, "collection", named->name));
  return named;
}

absl::StatusOr<NamedCollectionPtr> FindAnyCollection(const Catalog& catalog, const KeyPtr& key,
                                                     const std::string& name) {
  ABSL_RETURN_IF_ERROR(CheckCollection(key, "name", name));
  ABSL_ASSIGN_OR_RETURN(NamedCollectionPtr named, catalog.FindAny(name));
  ABSL_RETURN_IF_ERROR(CheckCollection(key, "name", named->name));
  return named;
}

absl::Status CheckNameInUse(const Catalog& catalog, const KeyPtr& key, const std::string& name) {
  const absl::Status found = FindAnyCollection(catalog, key, name).status();
  return absl::IsPermissionDenied(found) ? found : absl::OkStatus();
}

}  // namespace nearfield::server

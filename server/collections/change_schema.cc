#include "server/collections/change_schema.h"

#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/attributes/schema_encoding.h"

namespace nearfield::server {

absl::StatusOr<uint64_t> ChangeSchema(const NamedCollection& named, NextSchema next) {
  std::shared_ptr<const AttributeSchema> schema;
  const auto choose = [&](const std::shared_ptr<const PinnedEpoch>&) -> absl::StatusOr<RowChanges> {
    ABSL_ASSIGN_OR_RETURN(AttributeSchema changed, next(*named.attributes->SchemaAt()));
    schema = std::make_shared<const AttributeSchema>(std::move(changed));
    return RowChanges{
        .ids = IdColumn(named.collection->spec().id_type), .payloads = {}, .epochs = 1};
  };
  const auto record = [&](const PendingChange& change) -> absl::Status {
    auto prepared = named.attributes->PrepareSchema(change.epoch, schema);
    if (named.store != nullptr) {
      ABSL_RETURN_IF_ERROR(
          named.store->CommitSchema(named.store_id, change.epoch, EncodeSchema(*schema)));
    }
    named.attributes->Declare(std::move(prepared));
    return absl::OkStatus();
  };
  ABSL_ASSIGN_OR_RETURN(const UpdateResult result, named.collection->Update(choose, record));
  named.changed();
  return result.epoch;
}

}  // namespace nearfield::server

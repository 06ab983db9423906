// UpdateGroup: updates of one collection that become durable and visible in one commit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nearfield/engine/collection.h"
#include "server/attributes/attribute_block.h"
#include "server/collections/catalog.h"
#include "server/collections/collection_attributes.h"
#include "server/collections/principal_quotas.h"
#include "server/collections/update_queue.h"

namespace nearfield::server {

class UpdateGroup {
 public:
  // Borrows both. Requires: no row of two updates.
  UpdateGroup(const NamedCollection& named, absl::Span<UpdateQueue::Place> updates)
      : named_(named), updates_(updates) {}

  // Sets the results of the updates that succeed or that alone are at fault. Errors: what stops the
  // others; nothing changed then.
  absl::Status Run();

 private:
  // The rows that one update changes.
  struct Changes {
    UpdateQueue::Waiting* waiting = nullptr;
    UpdateReply reply;
    IdColumn ids;
    AttributeBlock attributes;                 // all attributes of the rows
    BytesColumn encoded;                       // the same, if any of them changes
    std::vector<const std::string*> payloads;  // none: all stay
  };

  // Ends updates that need not run: no caller waits for them, or their token is known.
  absl::Status SettleEarly();
  absl::StatusOr<RowChanges> Choose(const std::shared_ptr<const PinnedEpoch>& before);
  // Finds what one update changes in the state `before`, of which `epoch` is shown as the current
  // epoch.
  absl::StatusOr<Changes> Find(UpdateQueue::Waiting* waiting,
                               const std::shared_ptr<const PinnedEpoch>& before, uint64_t epoch);
  absl::Status ReserveQuotas();
  absl::Status Record(const PendingChange& change);

  const NamedCollection& named_;
  const absl::Span<UpdateQueue::Place> updates_;
  std::vector<Changes> changes_;     // of the updates that change rows, in their order
  std::vector<Changes> unchanging_;  // of the others
  // Updates that are refused if the rest succeeds: an error may depend on the epochs before it.
  std::vector<std::pair<UpdateQueue::Waiting*, absl::Status>> refused_;
  PrincipalQuotas::Hold quota_;
  std::optional<AttributeUpload>
      attributes_;  // set by Choose, after which the schema cannot change
};

}  // namespace nearfield::server

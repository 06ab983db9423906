#include "server/rpc/kept_epoch.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"

namespace nearfield::server {
namespace {

// `relation`: how min_epoch must relate to `epoch`, for the message.
absl::Status CheckMinEpoch(const WantedEpochs& wanted, const char* relation, uint64_t epoch) {
  if (!wanted.min_epoch || *wanted.min_epoch <= epoch) return absl::OkStatus();
  return ArgumentError("min_epoch",
                       absl::StrCat(*wanted.min_epoch, ", ", relation, epoch,
                                    ": a later epoch takes a call without it"),
                       absl::StrCat(*wanted.min_epoch), absl::StrCat(epoch));
}

}  // namespace

absl::Status CheckEpochs(const WantedEpochs& wanted) {
  if (!wanted.at_epoch) return absl::OkStatus();
  return CheckMinEpoch(wanted, "must be at most at_epoch, ", *wanted.at_epoch);
}

absl::Status CheckCursorEpoch(const WantedEpochs& wanted, uint64_t epoch) {
  if (wanted.at_epoch) {
    return ArgumentError("at_epoch", "set with a cursor: the cursor has its own epoch");
  }
  return CheckMinEpoch(wanted, "the cursor is of epoch ", epoch);
}

absl::StatusOr<std::shared_ptr<const PinnedEpoch>> FindKept(const EpochReader& reader,
                                                            const char* field, uint64_t epoch) {
  const std::shared_ptr<Collection>& collection = reader.named.collection;
  auto kept = reader.core.pinned_snapshots.Find(reader.caller, collection, epoch);
  if (kept != nullptr) return kept;
  const uint64_t current = collection->PinEpoch()->epoch();
  return absl::FailedPreconditionError(absl::StrCat(
      field, ": epoch ", epoch, epoch > current ? " is not reached" : " is kept no longer",
      ", the collection is at epoch ", current, ": begin again at the current epoch"));
}

absl::StatusOr<std::shared_ptr<const PinnedEpoch>> FindWanted(const EpochReader& reader,
                                                              const WantedEpochs& wanted) {
  if (wanted.at_epoch) return FindKept(reader, "at_epoch", *wanted.at_epoch);
  return reader.named.collection->PinEpoch();
}

}  // namespace nearfield::server

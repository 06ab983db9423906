// Functions that remove rows from a snapshot, without side effects. A corpus calls them during a
// change.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/row_filter.h"

namespace nearfield::corpus {

// Checks that no live row of `snapshot` has an id of `ids`. Errors: AlreadyExists (names the id).
absl::Status CheckNew(const CorpusSnapshot& snapshot, const OrderedIds& ids);

// Returns `state` without the rows at `slots`. A slot may be deleted already, or occur twice.
// Errors: ResourceExhausted (no device memory for the bits), Unavailable.
absl::StatusOr<GenerationState> WithoutSlots(const Device& device, const GenerationState& state,
                                             absl::Span<const uint32_t> slots);

// Returns `state` without the rows whose bits are set: bit (slot % 64) of word slot / 64.
absl::StatusOr<GenerationState> WithoutBits(const Device& device, const GenerationState& state,
                                            absl::Span<const uint64_t> bits);

struct Remainder {
  std::vector<GenerationState> generations;
  IdColumn ids_removed;  // in no order
};

// Returns the snapshot without the rows that `ids` name. Ignores other ids. Errors: as
// WithoutSlots.
absl::StatusOr<Remainder> Without(const Device& device, const CorpusSnapshot& snapshot,
                                  const OrderedIds& ids);

// Returns the snapshot without the live rows that `rows` chooses. Errors: as WithoutSlots.
absl::StatusOr<Remainder> WithoutChosen(const Device& device, const CorpusSnapshot& snapshot,
                                        const RowFilter& rows, IdType id_type);

// Returns `state` with updated rows, whose slots ascend. Errors: ResourceExhausted (host memory).
absl::StatusOr<GenerationState> WithVersions(const Device& device, const GenerationState& state,
                                             std::vector<RowVersion> updated);

// Returns the generations of the snapshot with these changes of its live rows. The rows get the
// ordinals first_ordinal, first_ordinal + 1, ... in the order of changes.ids. Errors: Internal (an
// id that names no row), ResourceExhausted (host memory).
absl::StatusOr<std::vector<GenerationState>> WithChanges(const Device& device,
                                                         const CorpusSnapshot& snapshot,
                                                         const RowChanges& changes,
                                                         uint32_t first_ordinal);

// Returns the state of a new generation in its first snapshot: without its superseded rows.
absl::StatusOr<GenerationState> FirstState(const Device& device,
                                           std::shared_ptr<const Generation> generation);

}  // namespace nearfield::corpus

// What a change leaves of a snapshot: pure functions, that a corpus calls while it makes a change.
#ifndef NEARFIELD_ENGINE_CORPUS_CHANGE_H_
#define NEARFIELD_ENGINE_CORPUS_CHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/row_filter.h"

namespace nearfield::corpus {

// Errors: AlreadyExists where a live row of `snapshot` has an id of `ids`: names it.
absl::Status CheckNew(const CorpusSnapshot& snapshot, const OrderedIds& ids);

// `state` without the rows at `slots` (perhaps deleted already, perhaps twice). Errors:
// ResourceExhausted (no device memory for the bits), Unavailable.
absl::StatusOr<GenerationState> WithoutSlots(const Device& device, const GenerationState& state,
                                             absl::Span<const uint32_t> slots);

// The same without the rows whose bits are set: bit (slot % 64) of word slot / 64.
absl::StatusOr<GenerationState> WithoutBits(const Device& device, const GenerationState& state,
                                            absl::Span<const uint64_t> bits);

struct Remainder {
  std::vector<GenerationState> generations;
  IdColumn ids_removed;  // in no order
};

// The snapshot without the rows that `ids` name; other ids count for nothing. Errors: as
// WithoutSlots.
absl::StatusOr<Remainder> Without(const Device& device, const CorpusSnapshot& snapshot,
                                  const OrderedIds& ids);

// The same without the live rows that `rows` chooses.
absl::StatusOr<Remainder> WithoutChosen(const Device& device, const CorpusSnapshot& snapshot,
                                        const RowFilter& rows, IdType id_type);

// A new generation as the first snapshot shows it: without its superseded rows.
absl::StatusOr<GenerationState> FirstState(const Device& device,
                                           std::shared_ptr<const Generation> generation);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_CHANGE_H_

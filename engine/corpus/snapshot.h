// CorpusSnapshot: the state of a corpus at one epoch. A search pins it, and later commits and
// deletions do not change it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/corpus/generation.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/row_versions.h"
#include "nearfield/engine/collection.h"

namespace nearfield::corpus {

// One generation, with its rows that are deleted and those that were updated at this epoch.
struct GenerationState {
  std::shared_ptr<const Generation> generation;
  std::shared_ptr<const backend::Tombstones> tombstones = nullptr;  // null: no row deleted
  int64_t rows_live = 0;                                            // > 0
  std::shared_ptr<const RowVersions> versions = nullptr;            // null: no row updated

  // The ordinal and the payload of a row at this epoch.
  uint32_t ordinal(uint32_t slot) const;
  std::string_view payload(uint32_t slot) const;
  // Sets bit (slot % 64) of word slot / 64 for each row that `filter` chooses. Requires: `words`
  // are zero and have a bit for each row.
  void Choose(const RowFilter& filter, absl::Span<uint64_t> words) const;
};

struct CorpusSnapshot {
  uint64_t epoch = 0;
  std::vector<GenerationState> generations;  // at most kGenerationsMax

  int64_t rows_live() const;
  std::vector<backend::GenerationView> Views() const;
  // Aborts if an invariant is broken: at most kGenerationsMax generations, each with a live row and
  // with tombstones that agree with rows_live. Cost: one step per generation; in dev and sanitizer
  // builds one per row.
  void Check() const;
};

// A row of a snapshot.
struct RowRef {
  uint32_t generation = 0;  // index into CorpusSnapshot::generations
  uint32_t slot = 0;

  bool operator==(const RowRef&) const = default;
};

// Calls visit(index, row) for every id of `wanted` that names a live row of the snapshot, until
// visit returns false. `wanted` may hold an id several times. Cost: one filter access for each id
// and generation; exact comparisons for the ids that pass.
void ForEachLive(const CorpusSnapshot& snapshot, const OrderedIds& wanted,
                 absl::FunctionRef<bool(uint32_t index, const RowRef& row)> visit);

// Returns the live row of each id, in the order of `ids`; nullopt if no row has the id.
std::vector<std::optional<RowRef>> Locate(const CorpusSnapshot& snapshot, const IdColumn& ids);

// A row to copy, and its destination.
struct RowCopy {
  RowRef row;
  uint8_t* to = nullptr;
};

// Returns the bytes of the requested parts of a row.
int64_t PartBytes(const CorpusSnapshot& snapshot, const RowRef& row, int64_t row_bytes,
                  const RowParts& parts);

// Returns ResourceExhausted if `bytes` exceeds parts.bytes_max.
absl::Status CheckPartBytes(int64_t bytes, const RowParts& parts);

// Makes the copies, `row_bytes` each. Uses few device transfers for each generation, for any order
// of `copies`.
absl::Status ReadRows(const CorpusSnapshot& snapshot, absl::Span<const RowCopy> copies,
                      int64_t row_bytes);

}  // namespace nearfield::corpus

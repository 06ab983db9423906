#include "engine/corpus/snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {
namespace {

// Rows are staged in pieces of about this size, so that reading many rows takes bounded host memory
// beside them.
constexpr int64_t kStagingBytes = 8 << 20;

// The copies out of one generation, through a staging buffer.
absl::Status ReadGeneration(const Generation& generation, absl::Span<const RowCopy> copies,
                            int64_t row_bytes) {
  const auto row_size = static_cast<size_t>(row_bytes);
  const auto piece_max = static_cast<size_t>(std::max<int64_t>(1, kStagingBytes / row_bytes));
  std::vector<uint32_t> slots;
  std::vector<uint8_t> staging;
  for (size_t begin = 0; begin < copies.size(); begin += piece_max) {
    const absl::Span<const RowCopy> piece = copies.subspan(begin, piece_max);
    slots.clear();
    for (const RowCopy& copy : piece) slots.push_back(copy.row.slot);
    staging.resize(piece.size() * row_size);
    ABSL_RETURN_IF_ERROR(
        generation.device->Observe(generation.planes->Read(slots, staging.data())));
    for (size_t i = 0; i < piece.size(); ++i) {
      std::memcpy(piece[i].to, staging.data() + i * row_size, row_size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CorpusSnapshot::rows_live() const {
  int64_t rows = 0;
  for (const GenerationState& state : generations) rows += state.rows_live;
  return rows;
}

std::vector<GenerationView> CorpusSnapshot::Views() const {
  std::vector<GenerationView> views;
  views.reserve(generations.size());
  for (const GenerationState& state : generations) {
    views.push_back({.planes = state.generation->planes.get(),
                     .tombstones = state.tombstones.get(),
                     .rows_live = state.rows_live});
  }
  return views;
}

std::vector<std::optional<RowRef>> Locate(const CorpusSnapshot& snapshot, const IdColumn& ids) {
  std::vector<std::optional<RowRef>> refs(static_cast<size_t>(ids.size()));
  const std::vector<uint32_t> order = OrderById(ids);
  const OrderedIds wanted = {.ids = &ids, .order = order};
  for (size_t g = 0; g < snapshot.generations.size(); ++g) {
    const GenerationState& state = snapshot.generations[g];
    ForEachShared(wanted, state.generation->ordered_ids(), [&](uint32_t index, uint32_t slot) {
      if (!IsDeleted(state.tombstones.get(), slot)) {
        refs[index] = RowRef{.generation = static_cast<uint32_t>(g), .slot = slot};
      }
      return true;
    });
  }
  return refs;
}

absl::Status ReadRows(const CorpusSnapshot& snapshot, absl::Span<const RowCopy> copies,
                      int64_t row_bytes) {
  std::vector<std::vector<RowCopy>> by_generation(snapshot.generations.size());
  for (const RowCopy& copy : copies) by_generation[copy.row.generation].push_back(copy);
  for (size_t g = 0; g < by_generation.size(); ++g) {
    ABSL_RETURN_IF_ERROR(
        ReadGeneration(*snapshot.generations[g].generation, by_generation[g], row_bytes));
  }
  return absl::OkStatus();
}

}  // namespace nearfield::corpus

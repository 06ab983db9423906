#include "engine/corpus/change.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/row_selection.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {

absl::Status CheckNew(const CorpusSnapshot& snapshot, const OrderedIds& ids) {
  absl::Status status;
  ForEachLive(snapshot, ids, [&](uint32_t index, const RowRef&) {
    status = absl::AlreadyExistsError(
        absl::StrCat("id ", IdText(ids.ids->at(index)), " is already in the collection"));
    return false;
  });
  return status;
}

namespace {

// Returns `state` with the deleted rows `words`, which leave `rows_live` live rows.
absl::StatusOr<GenerationState> Reduced(const Device& device, const GenerationState& state,
                                        std::vector<uint64_t> words, int64_t rows_live) {
  CHECK(0 <= rows_live && rows_live <= state.rows_live);
  GenerationState result = state;
  result.rows_live = rows_live;
  // No row is removed, or all rows are.
  if (result.rows_live == state.rows_live || result.rows_live == 0) return result;
  auto tombstones = device.backend().MakeTombstones(*state.generation->planes, std::move(words));
  if (!tombstones.ok()) return device.Observe(tombstones.status());
  result.tombstones = *std::move(tombstones);
  return result;
}

}  // namespace

absl::StatusOr<GenerationState> WithoutSlots(const Device& device, const GenerationState& state,
                                             absl::Span<const uint32_t> slots) {
  int64_t rows_live = state.rows_live;
  std::vector<uint64_t> words = CopyWords(state.tombstones.get(), state.generation->rows_count());
  for (const uint32_t slot : slots) {
    CHECK_LT(int64_t{slot}, state.generation->rows_count());
    if (IsDeleted(words, slot)) continue;
    words[slot / 64] |= uint64_t{1} << (slot % 64);
    --rows_live;
  }
  return Reduced(device, state, std::move(words), rows_live);
}

absl::StatusOr<GenerationState> WithoutBits(const Device& device, const GenerationState& state,
                                            absl::Span<const uint64_t> bits) {
  int64_t rows_live = state.rows_live;
  std::vector<uint64_t> words = CopyWords(state.tombstones.get(), state.generation->rows_count());
  CHECK_EQ(bits.size(), words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    rows_live -= std::popcount(bits[i] & ~words[i]);
    words[i] |= bits[i];
  }
  return Reduced(device, state, std::move(words), rows_live);
}

namespace {

// `slots`: the slots of live rows, each once; one list for each generation.
absl::StatusOr<Remainder> WithoutRowsAt(const Device& device, const CorpusSnapshot& snapshot,
                                        absl::Span<const std::vector<uint32_t>> slots,
                                        IdType id_type) {
  Remainder left = {.generations = {}, .ids_removed = IdColumn(id_type)};
  for (size_t g = 0; g < slots.size(); ++g) {
    GenerationState state = snapshot.generations[g];
    if (!slots[g].empty()) {
      for (const uint32_t slot : slots[g]) {
        left.ids_removed.AppendFrom(state.generation->ids, slot);
      }
      ABSL_ASSIGN_OR_RETURN(state, WithoutSlots(device, state, slots[g]));
    }
    if (state.rows_live > 0) left.generations.push_back(std::move(state));
  }
  return left;
}

}  // namespace

absl::StatusOr<Remainder> Without(const Device& device, const CorpusSnapshot& snapshot,
                                  const OrderedIds& ids) {
  std::vector<std::vector<uint32_t>> slots(snapshot.generations.size());
  ForEachLive(snapshot, ids, [&slots](uint32_t, const RowRef& row) {
    slots[row.generation].push_back(row.slot);
    return true;
  });
  for (std::vector<uint32_t>& of_generation : slots) {
    // If the caller passed an id twice, its slot is here twice, in succession.
    const auto end = std::unique(of_generation.begin(), of_generation.end());
    of_generation.erase(end, of_generation.end());
  }
  return WithoutRowsAt(device, snapshot, slots, ids.ids->type());
}

absl::StatusOr<Remainder> WithoutChosen(const Device& device, const CorpusSnapshot& snapshot,
                                        const RowFilter& rows, IdType id_type) {
  std::vector<std::vector<uint32_t>> slots;
  slots.reserve(snapshot.generations.size());
  for (const GenerationState& state : snapshot.generations) {
    slots.push_back(ChosenSlots(state, rows));
  }
  return WithoutRowsAt(device, snapshot, slots, id_type);
}

absl::StatusOr<GenerationState> WithVersions(const Device& device, const GenerationState& state,
                                             std::vector<RowVersion> updated) {
  GenerationState result = state;
  if (updated.empty()) return result;
  ABSL_ASSIGN_OR_RETURN(result.versions,
                        RowVersions::Make(state.versions.get(), std::move(updated), device.host()));
  return result;
}

absl::StatusOr<std::vector<GenerationState>> WithChanges(const Device& device,
                                                         const CorpusSnapshot& snapshot,
                                                         const RowChanges& changes,
                                                         uint32_t first_ordinal) {
  std::vector<std::vector<RowVersion>> updated(snapshot.generations.size());
  const std::vector<std::optional<RowRef>> rows = Locate(snapshot, changes.ids);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].has_value()) {
      return absl::InternalError(absl::StrCat(
          "update of id ", IdText(changes.ids.at(static_cast<int64_t>(i))), ", which has no row"));
    }
    RowVersion version = {.slot = rows[i]->slot,
                          .ordinal = first_ordinal + static_cast<uint32_t>(i)};
    if (!changes.payloads.empty() && changes.payloads[i] != nullptr) {
      auto payload = std::make_shared<UpdatedPayload>();
      payload->value = *changes.payloads[i];
      const auto bytes = UpdatedPayload::kBytes + static_cast<int64_t>(payload->value.size());
      ABSL_ASSIGN_OR_RETURN(payload->host, device.host().Reserve(bytes));
      version.payload = std::move(payload);
    }
    updated[rows[i]->generation].push_back(std::move(version));
  }
  std::vector<GenerationState> generations;
  for (size_t g = 0; g < updated.size(); ++g) {
    std::sort(updated[g].begin(), updated[g].end(),
              [](const RowVersion& a, const RowVersion& b) { return a.slot < b.slot; });
    ABSL_ASSIGN_OR_RETURN(GenerationState state,
                          WithVersions(device, snapshot.generations[g], std::move(updated[g])));
    generations.push_back(std::move(state));
  }
  return generations;
}

absl::StatusOr<GenerationState> FirstState(const Device& device,
                                           std::shared_ptr<const Generation> generation) {
  const std::vector<uint32_t> superseded = generation->superseded();
  GenerationState state;
  state.rows_live = generation->rows_count();
  state.generation = std::move(generation);
  if (superseded.empty()) return state;
  return WithoutSlots(device, state, superseded);
}

}  // namespace nearfield::corpus

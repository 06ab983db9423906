#include "engine/corpus/merge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/merge_policy.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {
namespace {

using Sources = std::vector<const GenerationState*>;

absl::StatusOr<GenerationParts> ReserveParts(const std::shared_ptr<Device>& device,
                                             const backend::RowFormat& format,
                                             const Sources& sources) {
  int64_t rows_count = 0;
  int64_t id_bytes = 0;
  int64_t payload_bytes = 0;
  int64_t runs_max = 0;  // runs of ordinals: each row that is left out may split one
  for (const GenerationState* source : sources) {
    rows_count += source->rows_live;
    id_bytes += source->generation->ids.bytes();
    runs_max += source->generation->ordinals.runs_count() + source->generation->rows_count() -
                source->rows_live;
    payload_bytes += source->generation->payloads.value_bytes();
    if (source->versions == nullptr) continue;
    runs_max += 2 * source->versions->rows_count();
    payload_bytes += source->versions->payload_bytes();
  }
  GenerationParts parts;
  parts.device = device;
  ABSL_ASSIGN_OR_RETURN(
      parts.host, device->host().Reserve(BuildBytes(
                      rows_count, id_bytes + 2 * runs_max * Ordinals::kRunBytes, payload_bytes)));
  auto planes = device->backend().Reserve(format, rows_count);
  if (!planes.ok()) return device->Observe(planes.status());
  parts.planes = *std::move(planes);
  parts.ids = IdColumn(sources.front()->generation->ids.type());
  parts.ids.Reserve(rows_count);
  parts.payloads.Reserve(rows_count, payload_bytes);
  return parts;
}

std::vector<int64_t> RowsLive(const std::vector<GenerationState>& states) {
  std::vector<int64_t> rows_live;
  rows_live.reserve(states.size());
  for (const GenerationState& state : states) rows_live.push_back(state.rows_live);
  return rows_live;
}

// Returns `states` with the generations at `indices` merged into one.
absl::StatusOr<std::vector<GenerationState>> MergeAt(const std::shared_ptr<Device>& device,
                                                     const backend::RowFormat& format,
                                                     const std::vector<GenerationState>& states,
                                                     const std::vector<size_t>& indices) {
  Sources sources;
  for (const size_t index : indices) sources.push_back(&states[index]);
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const Generation> merged, Merge(device, format, sources));
  std::vector<GenerationState> kept;
  for (size_t i = 0; i < states.size(); ++i) {
    if (std::find(indices.begin(), indices.end(), i) == indices.end()) kept.push_back(states[i]);
  }
  const int64_t rows_count = merged->rows_count();
  kept.push_back({.generation = std::move(merged), .tombstones = nullptr, .rows_live = rows_count});
  return kept;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Generation>> Merge(const std::shared_ptr<Device>& device,
                                                        const backend::RowFormat& format,
                                                        const Sources& sources) {
  ABSL_ASSIGN_OR_RETURN(GenerationParts parts, ReserveParts(device, format, sources));
  for (const GenerationState* source : sources) {
    const Generation& generation = *source->generation;
    const std::vector<uint32_t> slots =
        LiveSlots(source->tombstones.get(), 0, generation.rows_count());
    CHECK_EQ(static_cast<int64_t>(slots.size()), source->rows_live);
    ABSL_RETURN_IF_ERROR(device->Observe(parts.planes->AppendFrom(*generation.planes, slots)));
    for (const uint32_t slot : slots) {
      parts.ids.AppendFrom(generation.ids, slot);
      parts.ordinals.Append(source->ordinal(slot));
      parts.payloads.Append(source->payload(slot));
    }
  }
  return Seal(std::move(parts), DuplicatePolicy::kRefused);
}

absl::StatusOr<std::vector<GenerationState>> MergeDownTo(const std::shared_ptr<Device>& device,
                                                         const backend::RowFormat& format,
                                                         std::vector<GenerationState> states,
                                                         size_t generations_max) {
  while (states.size() > generations_max) {
    const std::vector<int64_t> rows_live = RowsLive(states);
    const std::vector<size_t> smallest = SmallestMerge(rows_live);
    const std::vector<size_t> chosen = ChooseMerge(rows_live);
    if (chosen.empty()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the collection has ", states.size(),
                       " parts, and no two of them fit into one of ", kRowsMax, " rows"));
    }
    auto merged = MergeAt(device, format, states, chosen);
    if (absl::IsResourceExhausted(merged.status()) && chosen != smallest && !smallest.empty()) {
      merged = MergeAt(device, format, states, smallest);
    }
    if (absl::IsResourceExhausted(merged.status())) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the collection has ", states.size(),
                       " parts, as many as it may, and no memory to merge two of them: ",
                       merged.status().message()));
    }
    if (!merged.ok()) return merged.status();
    CHECK_LT(merged->size(), states.size());
    states = *std::move(merged);
  }
  return states;
}

}  // namespace nearfield::corpus

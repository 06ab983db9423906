#include "engine/corpus/snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_filter.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {
namespace {

// Rows are staged in pieces of about this size, so that reading many rows takes bounded additional
// host memory.
constexpr int64_t kStagingBytes = 8 << 20;

// Makes the copies from one generation, through a staging buffer.
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

// Returns, for each generation, the ids that may be in it, in id order. Works in pieces, so that
// the hashes stay in the cache while they are tested against each filter.
std::vector<std::vector<uint32_t>> FilterIds(const CorpusSnapshot& snapshot,
                                             const OrderedIds& wanted) {
  constexpr size_t kPieceIds = 1 << 15;
  std::vector<std::vector<uint32_t>> matching(snapshot.generations.size());
  std::vector<uint64_t> hashes;
  for (size_t begin = 0; begin < wanted.order.size(); begin += kPieceIds) {
    const absl::Span<const uint32_t> piece = wanted.order.subspan(begin, kPieceIds);
    hashes.clear();
    for (const uint32_t index : piece) hashes.push_back(IdHash(*wanted.ids, index));
    for (size_t g = 0; g < matching.size(); ++g) {
      const IdFilter& filter = snapshot.generations[g].generation->filter;
      for (size_t i = 0; i < piece.size(); ++i) {
        if (filter.MayHold(hashes[i])) matching[g].push_back(piece[i]);
      }
    }
  }
  return matching;
}

}  // namespace

uint32_t GenerationState::ordinal(uint32_t slot) const {
  const RowVersion* const version = versions == nullptr ? nullptr : versions->Find(slot);
  return version == nullptr ? generation->ordinals.at(slot) : version->ordinal;
}

std::string_view GenerationState::payload(uint32_t slot) const {
  const RowVersion* const version = versions == nullptr ? nullptr : versions->Find(slot);
  if (version == nullptr || version->payload == nullptr) return generation->payload(slot);
  return version->payload->value;
}

void GenerationState::Choose(const RowFilter& filter, absl::Span<uint64_t> words) const {
  generation->ordinals.Choose(filter, words);
  if (versions == nullptr) return;
  versions->ForEach([&](const RowVersion& version) {
    const uint64_t bit = uint64_t{1} << (version.slot % 64);
    uint64_t& word = words[version.slot / 64];
    word = filter.Chooses(version.ordinal) ? word | bit : word & ~bit;
  });
}

int64_t CorpusSnapshot::rows_live() const {
  int64_t rows = 0;
  for (const GenerationState& state : generations) rows += state.rows_live;
  return rows;
}

void CorpusSnapshot::Check() const {
  CHECK_LE(generations.size(), size_t{kGenerationsMax});
  for (const GenerationState& state : generations) {
    const int64_t rows_count = state.generation->rows_count();
    CHECK_GT(state.rows_live, 0);
    CHECK_LE(state.rows_live, rows_count);
    CHECK_EQ(state.tombstones == nullptr, state.rows_live == rows_count);
    DCHECK_EQ(static_cast<int64_t>(LiveSlots(state.tombstones.get(), 0, rows_count).size()),
              state.rows_live);
  }
}

std::vector<backend::GenerationView> CorpusSnapshot::Views() const {
  std::vector<backend::GenerationView> views;
  views.reserve(generations.size());
  for (const GenerationState& state : generations) {
    views.push_back({.planes = state.generation->planes.get(),
                     .tombstones = state.tombstones.get(),
                     .rows_live = state.rows_live});
  }
  return views;
}

void ForEachLive(const CorpusSnapshot& snapshot, const OrderedIds& wanted,
                 absl::FunctionRef<bool(uint32_t index, const RowRef& row)> visit) {
  const std::vector<std::vector<uint32_t>> matching = FilterIds(snapshot, wanted);
  bool going_on = true;
  for (size_t g = 0; g < snapshot.generations.size() && going_on; ++g) {
    const GenerationState& state = snapshot.generations[g];
    ForEachShared({.ids = wanted.ids, .order = matching[g]}, state.generation->ordered_ids(),
                  [&](uint32_t index, uint32_t slot) {
                    if (IsDeleted(state.tombstones.get(), slot)) return true;
                    going_on = visit(index, {.generation = static_cast<uint32_t>(g), .slot = slot});
                    return going_on;
                  });
  }
}

std::vector<std::optional<RowRef>> Locate(const CorpusSnapshot& snapshot, const IdColumn& ids) {
  std::vector<std::optional<RowRef>> rows(static_cast<size_t>(ids.size()));
  const std::vector<uint32_t> order = OrderById(ids);
  ForEachLive(snapshot, {.ids = &ids, .order = order}, [&rows](uint32_t index, const RowRef& row) {
    rows[index] = row;
    return true;
  });
  return rows;
}

int64_t PartBytes(const CorpusSnapshot& snapshot, const RowRef& row, int64_t row_bytes,
                  const RowParts& parts) {
  int64_t bytes = parts.vectors ? row_bytes : 0;
  if (parts.payloads) {
    bytes += static_cast<int64_t>(snapshot.generations[row.generation].payload(row.slot).size());
  }
  return bytes;
}

absl::Status CheckPartBytes(int64_t bytes, const RowParts& parts) {
  if (parts.bytes_max == 0 || bytes <= parts.bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the vectors and payloads asked for take ",
                                                   bytes, " bytes, the limit is ", parts.bytes_max,
                                                   ": ask for fewer rows at once"));
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

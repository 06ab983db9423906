// A generation: the rows of one upload, or of several merged. Immutable once made, shared by the
// snapshots that show it.
#ifndef NEARFIELD_ENGINE_CORPUS_GENERATION_H_
#define NEARFIELD_ENGINE_CORPUS_GENERATION_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/corpus/device.h"
#include "engine/corpus/host_budget.h"
#include "engine/corpus/id_filter.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/ordinals.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"

namespace nearfield::corpus {

struct Generation {
  std::shared_ptr<Device> device;  // first: outlives the planes
  HostReservation host;
  std::unique_ptr<RowPlanes> planes;  // sealed
  IdColumn ids;                       // by slot
  // Slots in id order; behind the first `named` those whose id a later row of the same upload has:
  // deleted from the start.
  std::vector<uint32_t> slot_by_rank;
  int64_t named = 0;
  IdFilter filter;  // of the ids
  Ordinals ordinals;
  BytesColumn payloads;  // by slot; no value at all where every payload is empty

  int64_t rows_count() const { return ids.size(); }
  HeldBytes bytes() const {
    return {
        .device = planes->device_bytes(), .host = host.bytes(), .host_rows = planes->host_bytes()};
  }
  // Every id once.
  OrderedIds ordered_ids() const {
    return {.ids = &ids,
            .order = absl::MakeConstSpan(slot_by_rank).first(static_cast<size_t>(named))};
  }
  // Ascending.
  std::vector<uint32_t> superseded() const;
  std::string_view payload(uint32_t slot) const {
    return payloads.size() == 0 ? std::string_view() : payloads.at(slot);
  }
};

// What a generation is made of: rows appended to `planes`, not yet sealed, and the columns beside
// them.
struct GenerationParts {
  std::shared_ptr<Device> device;
  HostReservation host;
  std::unique_ptr<RowPlanes> planes;
  IdColumn ids;
  Ordinals ordinals;
  BytesColumn payloads;  // one value a row
};

// Host bytes of `rows_count` rows while a generation is made: ids of `id_bytes` together, ranks,
// sorting. -1: no int64.
int64_t BuildBytes(int64_t rows_count, int64_t id_bytes, int64_t payload_bytes);

// What becomes of a row whose id comes again.
enum class DuplicatePolicy : uint8_t { kRefused, kLastWins };

// Sorts the ids, seals the planes, and gives back the host memory that is not needed any more.
// Errors: AlreadyExists (kRefused: an id twice; names it), and what RowPlanes::Seal returns.
absl::StatusOr<std::shared_ptr<const Generation>> Seal(GenerationParts parts,
                                                       DuplicatePolicy duplicates);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_GENERATION_H_

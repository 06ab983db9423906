// Generation: the rows of one upload, or of several merged uploads. Immutable; shared by the
// snapshots that show it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/memory_budget.h"
#include "engine/corpus/device.h"
#include "engine/corpus/id_filter.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/ordinals.h"
#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"

namespace nearfield::corpus {

struct Generation {
  std::shared_ptr<Device> device;  // first: outlives the planes
  MemoryReservation host;
  std::unique_ptr<backend::RowPlanes> planes;  // sealed
  IdColumn ids;                                // by slot
  // Slots in id order. After the first `named` slots come the superseded ones: a later row of the
  // same upload has their id, so they are deleted from the start.
  std::vector<uint32_t> slot_by_rank;
  int64_t named = 0;
  IdFilter filter;  // of the ids
  Ordinals ordinals;
  BytesColumn payloads;  // by slot; has no values if every payload is empty

  int64_t rows_count() const { return ids.size(); }
  HeldBytes bytes() const {
    return {
        .device = planes->device_bytes(), .host = host.bytes(), .host_rows = planes->host_bytes()};
  }
  // Returns every id once, in order.
  OrderedIds ordered_ids() const {
    return {.ids = &ids,
            .order = absl::MakeConstSpan(slot_by_rank).first(static_cast<size_t>(named))};
  }
  // Aborts if an invariant is broken: every column has one entry per row, and slot_by_rank is in id
  // order. Cost: constant; in dev and sanitizer builds one comparison of ids per row.
  void Check() const;
  // Returns the superseded slots, ascending.
  std::vector<uint32_t> superseded() const;
  std::string_view payload(uint32_t slot) const {
    return payloads.size() == 0 ? std::string_view() : payloads.at(slot);
  }
};

// The parts of a new generation: rows appended to `planes`, which are not sealed yet, and the other
// columns.
struct GenerationParts {
  std::shared_ptr<Device> device;
  MemoryReservation host;
  std::unique_ptr<backend::RowPlanes> planes;
  IdColumn ids;
  Ordinals ordinals;
  BytesColumn payloads;  // one value for each row
};

// Returns the host bytes that are needed to make a generation of `rows_count` rows: ids of
// `id_bytes` in total, ranks, sorting, payloads. Returns -1 if they exceed int64.
int64_t BuildBytes(int64_t rows_count, int64_t id_bytes, int64_t payload_bytes);

// The treatment of a row whose id occurs again in the same upload.
enum class DuplicatePolicy : uint8_t { kRefused, kLastWins };

// Sorts the ids, seals the planes, and releases the host memory that is no longer needed. Errors:
// AlreadyExists (kRefused: an id occurs twice; names it), and those of RowPlanes::Seal.
absl::StatusOr<std::shared_ptr<const Generation>> Seal(GenerationParts parts,
                                                       DuplicatePolicy duplicates);

}  // namespace nearfield::corpus

// What a device must do for the engine: hold rows and find the best of them. Implemented by
// engine/cpu and engine/gpu. Rows of a generation are addressed by slot (place of arrival); the
// backend returns ranks (place in id order).
#ifndef NEARFIELD_ENGINE_BACKEND_BACKEND_H_
#define NEARFIELD_ENGINE_BACKEND_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/ranked_lists.h"
#include "engine/base/host_work.h"
#include "nearfield/engine/types.h"

namespace nearfield::corpus {

// Of every collection's rotation.
inline constexpr uint64_t kRotationSeed = 0x6e65617266696c64;

struct RowFormat {
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  ScanPrecision scan = ScanPrecision::kRows;
  // The collection has no wish of its own: a search may read the rows where that takes less time.
  bool may_scan_rows = false;
  RowHome rows = RowHome::kDevice;
  uint64_t seed = kRotationSeed;  // of the rotation that codes are made in
};

// The planes of one generation on the device: exact rows, squared norms S(x,x), ranks, and for a
// scan of codes the codes and what bounds them (corpus/scan_code.h). Filled,
// sealed, then immutable. Append and Seal: one thread. Read: any thread, after Seal. Destruction
// gives the memory back.
class RowPlanes {
 public:
  virtual ~RowPlanes() = default;

  // Appends `rows_count` rows, row-major [rows_count, dim] in the format's row type, host memory
  // borrowed for the call. The caller has checked them finite and within the reservation.
  virtual absl::Status Append(const void* rows, int64_t rows_count) = 0;

  // Appends the rows of `source` (same backend and format, sealed) at `slots`, in that order.
  virtual absl::Status AppendFrom(const RowPlanes& source, absl::Span<const uint32_t> slots) = 0;

  // Ends filling. ranks[slot]: place of the row's id in id order, a permutation of 0 ..
  // rows_count-1. Gives back the unused part of the reservation.
  virtual absl::Status Seal(absl::Span<const uint32_t> ranks) = 0;

  // Copies the rows at `slots` to `rows` ([slots.size(), dim], row type), as they were appended.
  virtual absl::Status Read(absl::Span<const uint32_t> slots, void* rows) const = 0;

  // Copies rows [begin, begin + rows_count) to `rows`, as they were appended.
  virtual absl::Status ReadRange(int64_t begin, int64_t rows_count, void* rows) const = 0;

  virtual int64_t rows_count() const = 0;
  virtual int64_t device_bytes() const = 0;
  // Host memory of rows that lie there, apart from the device's; 0 where there is one memory.
  virtual int64_t host_bytes() const { return 0; }
};

// A set of deleted slots, on the device. Immutable.
class Tombstones {
 public:
  virtual ~Tombstones() = default;
  // The bits on the host: bit (slot % 64) of word slot / 64.
  virtual absl::Span<const uint64_t> words() const = 0;
};

// One generation as a search sees it.
struct GenerationView {
  const RowPlanes* planes = nullptr;       // sealed
  const Tombstones* tombstones = nullptr;  // null: no row deleted
  int64_t rows_live = 0;                   // 0: none of its rows is searched, tombstones or not
  // The slots that are not deleted, ascending, where they are few; else empty. A hint: a backend
  // may score just these instead of scanning, and tombstones say the same.
  absl::Span<const uint32_t> live_slots;
};

struct QueryTile {
  // [k.size(), dim] row-major fp32, finite; for cosine none is all zeros.
  const float* queries = nullptr;
  absl::Span<const int32_t> k;      // wanted neighbors a query, 1 .. BackendFacts::k_max
  std::function<bool()> cancelled;  // may be empty; true: return Cancelled between steps
  HostWork* host_work = nullptr;    // for the host's part; null: the caller's thread alone
};

struct ScanCost {
  int64_t device_us = 0;
  int64_t candidates = 0;
  int64_t bytes_read = 0;
  int64_t queries_of_codes = 0;  // answered from a scan of codes
  ScanEscalations escalations;

  ScanCost& operator+=(const ScanCost& other) {
    device_us += other.device_us;
    candidates += other.candidates;
    bytes_read += other.bytes_read;
    queries_of_codes += other.queries_of_codes;
    escalations += other.escalations;
    return *this;
  }
};

struct BackendFacts {
  BackendKind kind = BackendKind::kCpu;
  std::string device_name;
  int32_t k_max = 0;  // one more than a query may ask for: a query by id drops its own row
  int32_t batch_max = 0;
  // What a collection's choice of kAuto comes to, from this dimension on; below it, to kRows.
  ScanPrecision scan = ScanPrecision::kRows;
  // The fastest that the device reads its memory in a stream, measured or derived; 0: unknown.
  double read_bytes_per_second = 0;
  int32_t scan_dim_min = 1;
};

// Thread-safe: searches, reservations and fills may run at once.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendFacts& facts() const = 0;

  // Room for `rows_max` rows, taken in full from the device memory of this backend.
  // Errors: ResourceExhausted (needed and free bytes).
  virtual absl::StatusOr<std::unique_ptr<RowPlanes>> Reserve(const RowFormat& format,
                                                             int64_t rows_max) = 0;

  // `words` as in Tombstones::words(). Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Tombstones>> MakeTombstones(
      std::vector<uint64_t> words) = 0;

  // Fills *best with the exact top-k of each generation: list (query, generation) holds the first
  // rows of the generation's order, at most k, and at least those that are among the query's k best
  // of all generations. The lists of a query thus hold min(k, all live rows) rows or more.
  // Errors: Cancelled, Unavailable (device lost); *best is then undefined.
  virtual absl::Status Search(const RowFormat& format, absl::Span<const GenerationView> generations,
                              const QueryTile& tile, RankedLists* best, ScanCost* cost) = 0;

  virtual int64_t device_bytes_total() const = 0;
  virtual int64_t device_bytes_used() const = 0;
  // Host memory for the rows of formats with RowHome::kHost, where the device has another.
  virtual int64_t host_rows_bytes_total() const { return 0; }
  virtual int64_t host_rows_bytes_used() const { return 0; }

  // OK, or Unavailable with the sticky error.
  virtual absl::Status Health() const = 0;
};

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_BACKEND_BACKEND_H_

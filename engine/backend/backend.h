// Backend: the interface of a device to the engine. It stores rows and finds the best of them.
// Implemented by engine/cpu and engine/gpu. Rows of a generation are addressed by slot (order of
// arrival); the backend returns ranks (order of ids).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/backend/ranked_lists.h"
#include "engine/backend/term_source.h"
#include "engine/base/host_work.h"
#include "nearfield/engine/device_search.h"
#include "nearfield/engine/engine.h"
#include "nearfield/engine/types.h"

namespace nearfield::backend {

// Seed of the rotation of every collection.
inline constexpr uint64_t kRotationSeed = 0x6e65617266696c64;

struct RowFormat {
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  ScanPrecision scan = ScanPrecision::kRows;
  // True if the collection does not choose a scan: a search may read the rows if that is faster.
  bool may_scan_rows = false;
  // True if a second code of each row is wanted (ScanChoice::kInt16). A backend may ignore it.
  bool second_codes = false;
  RowPlacement rows = RowPlacement::kDevice;
  bool numeric_ids = false;       // the ids are numbers: see SealedOrder
  int32_t devices = 0;            // CollectionSpec::devices
  uint64_t seed = kRotationSeed;  // of the rotation of the codes
};

// The ids of a generation, by slot.
struct SealedOrder {
  // The position of the row's id in id order, a permutation of 0 .. rows_count-1.
  absl::Span<const uint32_t> ranks;
  // The ids, if RowFormat::numeric_ids; else empty. A backend that finishes answers keeps them.
  absl::Span<const uint64_t> ids;
};

// The planes of one generation on the device: exact rows, squared norms S(x,x), ranks, numeric ids,
// and for a scan of codes the codes and their bounds (bound/int8_code.h). Filled, sealed, then
// immutable. Thread safety: one thread calls Append and Seal; after Seal, any thread may call Read.
// The destructor releases the memory.
class RowPlanes {
 public:
  virtual ~RowPlanes() = default;

  // Appends `rows_count` rows, row-major [rows_count, dim] in the format's row type, host memory
  // borrowed for the call. Requires: the values are finite, and the rows fit into the reservation.
  virtual absl::Status Append(const void* rows, int64_t rows_count) = 0;

  // Appends the rows of `source` (same backend and format, sealed) at `slots`, in that order.
  virtual absl::Status AppendFrom(const RowPlanes& source, absl::Span<const uint32_t> slots) = 0;

  // Ends filling, and releases the unused part of the reservation.
  virtual absl::Status Seal(const SealedOrder& order) = 0;

  // Copies the rows at `slots` to `rows` ([slots.size(), dim], row type), as they were appended.
  virtual absl::Status Read(absl::Span<const uint32_t> slots, void* rows) const = 0;

  // Copies rows [begin, begin + rows_count) to `rows`, as they were appended.
  virtual absl::Status ReadRange(int64_t begin, int64_t rows_count, void* rows) const = 0;

  virtual int64_t rows_count() const = 0;
  virtual int64_t device_bytes() const = 0;
  // Returns the bytes of rows in host memory; 0 if host and device share one memory.
  virtual int64_t host_bytes() const { return 0; }
};

// The set of deleted slots of a generation, on the device. Immutable.
class Tombstones {
 public:
  virtual ~Tombstones() = default;
  // Returns the bits on the host: bit (slot % 64) of word slot / 64.
  virtual absl::Span<const uint64_t> words() const = 0;
};

// One generation as a search sees it.
struct GenerationView {
  const RowPlanes* planes = nullptr;       // sealed
  const Tombstones* tombstones = nullptr;  // null: no row deleted
  int64_t rows_live = 0;                   // rows to search; if 0, tombstones is ignored
  // The slots that are not deleted, ascending, if they are few; else empty. A hint with the same
  // content as tombstones: a backend may score only these slots instead of scanning.
  absl::Span<const uint32_t> live_slots;
};

// Which queries a backend finishes (RankedLists::finished): none; those for which that is faster;
// or all, if it can finish queries.
enum class Finish : uint8_t { kNone, kSome, kAll };

struct QueryTile {
  // [k.size(), dim] row-major fp32, finite; for cosine no query is all zeros.
  const float* queries = nullptr;
  absl::Span<const int32_t> k;                // neighbors of each query, 1 .. BackendInfo::k_max
  std::function<bool()> cancelled = nullptr;  // may be empty; true: return Cancelled between steps
  HostWork* host_work = nullptr;              // for the host's part; null: only the caller's thread
  // May be called once for a query whose lists are complete, while the backend still works on
  // others: by several threads at a time, each for another query. Its error ends the search. May be
  // empty.
  std::function<absl::Status(int64_t query)> answered = nullptr;
  // May be called for a query while the backend works on it: RankedLists::finished then says where
  // its rows will be and how many there are, but their values are not there yet. In the end the
  // query may have other rows, or lists. Called by the thread of the search. May be empty.
  std::function<void(int64_t query)> placed = nullptr;
  // Unless kNone: the ids of the rows are all that is needed of them, they are numbers, and k adds
  // up to at most BackendInfo::finished_rows_max.
  Finish finish = Finish::kNone;
  bool in_query_memory = false;  // the queries lie in memory of Backend::TakeQueryMemory
  // The row terms of each query, null if it has none; or empty: no query has any. The scores of a
  // query with terms are final scores. Requires: BackendInfo::row_terms. Error of a backend with
  // too little memory for their numbers: ResourceExhausted.
  absl::Span<const TermSource* const> terms;
  // The generations as each query sees them: those of the search with the tombstones, the rows_live
  // and the live_slots of the query, all of whose rows the search sees too. Queries that see the
  // same rows have the same span. Empty: every query sees what the search sees.
  absl::Span<const absl::Span<const GenerationView>> views;
};

// Queries and the destination of their answers, as in DeviceSearch.
struct DeviceTile {
  const void* queries = nullptr;
  RowType query_type = RowType::kFloat32;
  int64_t queries_count = 0;  // 1 .. BackendInfo::batch_max
  int32_t k = 0;              // 1 .. BackendInfo::k_max
  void* stream = nullptr;
  float score_min = -std::numeric_limits<float>::infinity();
  std::function<bool()> cancelled = nullptr;
  float* scores = nullptr;
  uint64_t* ids = nullptr;
  int32_t* counts = nullptr;
};

// An invalid query that SearchOnDevice found.
struct QueryFault {
  int64_t query = -1;      // -1: none was found
  int32_t dimension = -1;  // the first one that is not finite; -1: all zeros, with cosine
};

struct ScanCost {
  int64_t device_us = 0;
  int64_t candidates = 0;
  int64_t bytes_read = 0;
  int64_t queries_of_codes = 0;  // queries answered by a scan of codes
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

struct BackendInfo {
  BackendKind kind = BackendKind::kCpu;
  std::string device_name;
  // Maximum k of Search. One more than EngineOptions::k_max, because a query by id finds its own
  // row too.
  int32_t k_max = 0;
  int32_t batch_max = 0;
  int64_t finished_rows_max = 0;  // of the queries of one Search, see QueryTile::finish
  // The scan that kAuto selects for dimensions scan_dim_min .. scan_dim_max; outside, kRows.
  ScanPrecision scan = ScanPrecision::kRows;
  int32_t scan_dim_min = 1;
  // Above it, the device cannot scan codes, and kInt8 means kRows too.
  int32_t scan_dim_max = kDimMax;
  bool row_terms = false;  // Search reads QueryTile::terms; else no search has any
  // Peak bandwidth of sequential reads of device memory, measured or derived; 0: unknown.
  double read_bytes_per_second = 0;
};

// Thread-safe: searches, reservations and fills may run concurrently.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Returns the device memory that Reserve takes for `rows_max` rows. Errors: ResourceExhausted
  // (more than 2^63 bytes).
  virtual absl::StatusOr<int64_t> DeviceBytesOf(const RowFormat& format,
                                                int64_t rows_max) const = 0;

  // Allocates device memory of this backend for `rows_max` rows.
  // Errors: ResourceExhausted (reports needed and free bytes).
  virtual absl::StatusOr<std::unique_ptr<RowPlanes>> Reserve(const RowFormat& format,
                                                             int64_t rows_max) = 0;

  // Makes tombstones of a generation with `words` as in Tombstones::words(). planes: of this
  // backend, sealed. Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<Tombstones>> MakeTombstones(
      const RowPlanes& planes, std::vector<uint64_t> words) = 0;

  // Takes memory for `count` values of queries, from which the device can read them. Returns null
  // if the backend has no such memory, or none that is free and large enough.
  virtual std::shared_ptr<float[]> TakeQueryMemory(int64_t /*count*/) { return nullptr; }

  // Says that the first `count` values of such memory are written, so that they can be on their way
  // to the device when the search begins. Errors: Unavailable.
  virtual absl::Status SendQueries(const float* /*values*/, int64_t /*count*/) {
    return absl::OkStatus();
  }

  // Fills *best with the exact top-k of each generation: list (query, generation) holds the first
  // rows of the generation's order, at most k, and at least those that are among the query's k best
  // of all generations that the query sees. The lists of a query thus hold min(k, all its live
  // rows) rows or more. A finished query has exactly that many rows.
  // Errors: Cancelled, Unavailable (device lost); *best is then undefined.
  virtual absl::Status Search(const RowFormat& format, absl::Span<const GenerationView> generations,
                              const QueryTile& tile, RankedLists* best, ScanCost* cost) = 0;

  // Device memory for answers, see Engine::TakeDeviceMemory.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(int64_t /*bytes*/) {
    return NoDeviceMemory();
  }

  // Writes the exact top-k of all generations to the destination of the tile. Blocks until the
  // answers are there. Requires: numeric ids. Errors: InvalidArgument (*fault is set: a query is
  // not valid; or a pointer is not to memory of this device), FailedPrecondition (the stream is
  // being captured), Cancelled, Unavailable (device lost).
  virtual absl::Status SearchOnDevice(const RowFormat& /*format*/,
                                      absl::Span<const GenerationView> /*generations*/,
                                      const DeviceTile& /*tile*/, QueryFault* /*fault*/,
                                      ScanCost* /*cost*/) {
    return NoDeviceMemory();
  }

  // Returns the devices, if there are several; else nothing.
  virtual std::vector<DeviceCapacity> devices() const { return {}; }
  virtual int64_t device_bytes_total() const = 0;
  virtual int64_t device_bytes_used() const = 0;
  // Return the host memory for rows of formats with RowPlacement::kHost. 0 if the device has no
  // memory of its own.
  virtual int64_t host_rows_bytes_total() const { return 0; }
  virtual int64_t host_rows_bytes_used() const { return 0; }

  // Returns OK, or Unavailable with the sticky error.
  virtual absl::Status Health() const = 0;

 private:
  absl::Status NoDeviceMemory() const {
    return absl::UnimplementedError(absl::StrCat(
        "queries on the device: the ", info().kind == BackendKind::kCpu ? "CPU" : "GPU",
        " backend (", info().device_name, ") is not a single GPU; use Search"));
  }
};

}  // namespace nearfield::backend

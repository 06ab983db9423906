// The exact retrieval engine of one device: collections in its memory, searches over them, the
// oracle that proves them.
#ifndef NEARFIELD_ENGINE_ENGINE_H_
#define NEARFIELD_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/types.h"

namespace nearfield {

enum class BackendChoice : uint8_t { kAuto, kCpu, kGpu };

struct EngineOptions {
  // kAuto: the GPU where a usable one is present, else the CPU. kGpu: an error without one.
  BackendChoice backend = BackendChoice::kAuto;
  // CUDA ordinal of the GPU.
  int32_t device = 0;
  // Bytes of device memory for rows (CPU backend: host memory), taken at creation. 0: 85% of what
  // is free on the GPU; half of the physical memory on the CPU backend.
  int64_t memory_bytes = 0;
  // Bytes of host memory for ids and payloads. 0: a quarter of the physical memory.
  int64_t host_memory_bytes = 0;
  // Threads of the CPU backend's scan. 0: all cores.
  int32_t threads = 0;
  // Neighbors a query may ask for; sizes the GPU workspace. 1 .. kKMax.
  int32_t k_max = kKMax;
  // Queries a batch may hold; sizes the GPU workspace. 1 .. 65,536.
  int32_t batch_max = 1024;
};

struct EngineInfo {
  BackendKind backend = BackendKind::kCpu;
  std::string device_name;  // "NVIDIA H200", or the CPU's instruction set and thread count
  std::string note;         // why this backend: "no CUDA driver found", "built without CUDA", ...
  int32_t k_max = 0;
  int32_t batch_max = 0;
};

struct Capacity {
  int64_t device_bytes_total = 0;  // for rows, norms and ranks
  int64_t device_bytes_used =
      0;                         // held by committed rows, running uploads and results still in use
  int64_t host_bytes_total = 0;  // for ids and payloads
  int64_t host_bytes_used = 0;
};

struct Query {
  absl::Span<const float> vector;  // [dim] fp32, borrowed for the call; or empty:
  std::optional<Id> row_id;        // score against this stored row, and leave it out of the answer
  int32_t k = 10;                  // 1 .. k_max
};

struct SearchBatch {
  std::vector<Query> queries;  // 1 .. batch_max
  RowParts parts;              // what to return beside ids and scores
  // Asked between steps of long work; true ends the call with Cancelled. May be empty.
  std::function<bool()> cancelled;
};

// min(k, live rows) neighbors ordered by (score descending, id ascending); never padded.
struct Neighbors {
  IdColumn ids;
  std::vector<float> scores;
  std::vector<uint8_t> rows;  // [scores.size(), dim] in the row type, if asked for
  BytesColumn payloads;       // one value a neighbor, if asked for
};

struct SearchCost {
  int64_t device_us =
      0;                 // from handing the batch to the backend until its results were on the host
  int64_t total_us = 0;  // the whole call
  int64_t rows_scanned = 0;  // live rows of the corpus
  int64_t candidates =
      0;  // rows that selection looked at after the first threshold, summed over queries
  int64_t bytes_read = 0;  // bytes of row data the scan had to read
  BackendKind backend = BackendKind::kCpu;
  ScanPrecision precision = ScanPrecision::kRows;
};

struct SearchResult {
  uint64_t epoch = 0;
  std::vector<Neighbors> queries;  // one a query, in order
  SearchCost cost;
};

// What Verify found for one query. `equal` is the whole verdict; the rest explains a difference.
struct VerifyResult {
  uint64_t epoch = 0;
  bool equal = false;
  int64_t rows_checked = 0;       // rows the oracle scored
  int64_t first_difference = -1;  // place of the first wrong neighbor, -1 where equal
  std::string explanation;        // empty where equal
  Neighbors expected;             // the oracle's answer: ids and scores
};

class Engine {
 public:
  // Takes all device memory. Errors: InvalidArgument (an option out of range: names it, its value
  // and the limit), FailedPrecondition (kGpu and no usable GPU: says why), ResourceExhausted
  // (memory_bytes not to be had).
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);

  virtual ~Engine() = default;
  virtual EngineInfo Info() const = 0;
  virtual Capacity GetCapacity() const = 0;

  // OK, or Unavailable once the device is lost: then every later call fails and the process must be
  // replaced.
  virtual absl::Status Health() const = 0;

  // A new, empty collection (epoch 0). It lives as long as someone holds it. Errors:
  // InvalidArgument (spec).
  virtual absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(
      const CollectionSpec& spec) = 0;

  // Finds, for every query, the k rows with the greatest score.
  // Exact as defined in proto/nearfield/v1/retrieval.proto, "Score". Thread-safe; batches run one
  // after another. Cost: one pass over the rows per tile of queries; no device allocation after
  // Create(). Errors: InvalidArgument (dim, k, non-finite value, zero query with cosine: names the
  // query), NotFound (row_id), Cancelled, Unavailable (device lost). The collection must come from
  // this engine. No rows: empty answers.
  virtual absl::StatusOr<SearchResult> Search(const Collection& collection,
                                              const SearchBatch& batch) = 0;

  // Checks an answer against the oracle, which reads every exact row back from the device and sorts
  // all of them.
  //   claimed: ids and scores to check; the answer for `epoch`. Slow by design: N * dim
  //   multiplications on one core.
  // Errors: as Search; FailedPrecondition where the collection is no longer at `epoch` (names
  // both).
  virtual absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Query& query,
                                              uint64_t epoch, const Neighbors& claimed,
                                              const std::function<bool()>& cancelled) = 0;

  // Searches small random corpora of every metric, row type and id type and compares with the
  // oracle, bit for bit. Errors: DataLoss (a difference: says which), or what Search returned.
  virtual absl::Status SelfTest(uint64_t seed) = 0;
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_ENGINE_H_

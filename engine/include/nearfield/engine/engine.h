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
#include "nearfield/engine/row_filter.h"
#include "nearfield/engine/types.h"

namespace nearfield {

enum class BackendChoice : uint8_t { kAuto, kCpu, kGpu };

struct EngineOptions {
  // kAuto: the GPU where a usable one is present, else the CPU. kGpu: an error without one.
  BackendChoice backend = BackendChoice::kAuto;
  // CUDA ordinal of the GPU.
  int32_t device = 0;
  // Bytes of device memory for rows (CPU backend: host memory), taken at creation. 0: 85% of what
  // is free on the GPU; half of the physical memory on the CPU backend, all of it at most. The
  // physical memory is the machine's, or less where the process's cgroup allows less.
  int64_t memory_bytes = 0;
  // Bytes of host memory for ids and payloads, the physical memory at most. 0: a quarter of it.
  int64_t host_memory_bytes = 0;
  // Bytes of page-locked host memory for the rows of collections with RowHome::kHost, taken at
  // creation. Of the GPU backend alone: the CPU backend has one memory for all rows.
  int64_t host_rows_bytes = 0;
  // Threads of the CPU backend's scan. 0: all cores.
  int32_t threads = 0;
  // Neighbors a query may ask for; sizes the GPU workspace. 1 .. kKMax.
  int32_t k_max = kKMax;
  // Queries a batch may hold; sizes the GPU workspace. 1 .. 65,536.
  int32_t batch_max = 1024;
  // Ordinals of a collection: how many rows it can have at once, with the deleted ones whose
  // ordinals were not released yet (row_filter.h). 1 .. 2^32; fewer are for tests.
  int64_t ordinals_max = int64_t{1} << 32;
};

struct EngineInfo {
  BackendKind backend = BackendKind::kCpu;
  std::string device_name;  // "NVIDIA H200", or the CPU's instruction set and thread count
  std::string note;         // why this backend: "no CUDA driver found", "built without CUDA", ...
  int32_t k_max = 0;
  int32_t batch_max = 0;
  // The fastest that the device reads its memory in a stream; 0: unknown. SearchCost::bytes_read
  // over this is the least time of a scan whose bytes are in no cache.
  double read_bytes_per_second = 0;
};

struct Capacity {
  int64_t device_bytes_total = 0;  // for rows, codes and their bounds, norms and ranks
  int64_t device_bytes_used =
      0;                         // held by committed rows, running uploads and results still in use
  int64_t host_bytes_total = 0;  // for ids and payloads
  int64_t host_bytes_used = 0;
  int64_t host_rows_bytes_total = 0;  // for rows of RowHome::kHost on the GPU backend
  int64_t host_rows_bytes_used = 0;
};

// What the pages of one search share, so that the next page costs one scan at most: a bit for each
// row of the collection, set for the rows found so far, and the last rows found, at most two pages
// and 2 k_max rows of 12 bytes. It belongs to one query, filter and state: a search at another
// state, or for rows before the last page, begins it anew. Not for two searches at once.
class OrderPrefix {
 public:
  virtual ~OrderPrefix() = default;
  virtual int64_t rows_count() const = 0;  // first rows of the order that were found
  virtual int64_t bytes() const = 0;       // of host memory
};
// Nobody will ask for rows beyond the first rows_max of the order.
std::shared_ptr<OrderPrefix> MakeOrderPrefix(int64_t rows_max);

struct Query {
  absl::Span<const float> vector;  // [dim] fp32, borrowed for the call; or empty:
  std::optional<Id> row_id;        // score against this stored row, and leave it out of the answer
  int32_t k = 10;                  // 1 .. k_max
  // Rows that may be in the answer; null: all. Queries that share one share its work.
  std::shared_ptr<const RowFilter> filter;
  // No row with a lower score is in the answer. Not NaN.
  std::optional<float> score_min;
  // The answer begins behind so many rows of the order: the next page. Beyond k_max - k it costs a
  // scan for every k_max rows.
  int64_t skip = 0;
  // What earlier pages found, where there are several: then a page costs the scan for the rows that
  // are not known yet, and looks up to as far ahead again. May be null.
  std::shared_ptr<OrderPrefix> prefix;
  // Tell in Neighbors::more whether rows follow the answer. With score_min that takes a look at the
  // row that follows, so an answer that ends at k_max rows of the order costs one more scan.
  bool tell_more = false;

  // First rows of the order that must be known for the answer.
  int64_t rows_wanted() const { return skip + k + (tell_more && score_min ? 1 : 0); }
};

struct SearchBatch {
  std::vector<Query> queries;  // 1 .. batch_max
  // The state to search: of this collection; null: the current one.
  std::shared_ptr<const PinnedEpoch> at;
  RowParts parts;  // what to return beside ids and scores
  // Asked between steps of long work; true ends the call with Cancelled. May be empty.
  std::function<bool()> cancelled;
};

// Ordered by (score descending, id ascending); never padded: min(k, rows that may be in the
// answer).
struct Neighbors {
  IdColumn ids;
  std::vector<float> scores;
  std::vector<uint8_t> rows;  // [scores.size(), dim] in the row type, if asked for
  BytesColumn payloads;       // one value a neighbor, if asked for
  // Rows that would be in the answer with any k and no score_min: those that the filter chose, all
  // live rows without one; the row of a query by id is not among them.
  int64_t rows_matched = 0;
  bool more = false;  // tell_more: rows that belong in the answer with a larger k follow
};

struct SearchCost {
  int64_t device_us =
      0;                 // from handing the batch to the backend until its results were on the host
  int64_t total_us = 0;  // the whole call
  int64_t rows_scanned = 0;  // live rows of the corpus
  // Rows that selection looked at after the first threshold, summed over queries. In a scan of
  // codes: rows scored canonically.
  int64_t candidates = 0;
  int64_t bytes_read = 0;  // bytes of codes and rows the scan had to read
  BackendKind backend = BackendKind::kCpu;
  ScanPrecision precision = ScanPrecision::kRows;  // of most of the queries
  ScanEscalations escalations;
};

struct SearchResult {
  uint64_t epoch = 0;
  std::vector<Neighbors> queries;  // one a query, in order
  SearchCost cost;
};

// An answer to check, with the query it answers. Borrowed for the call.
struct Claim {
  const Query& query;
  const Neighbors& neighbors;  // ids and scores; the rest is not looked at
  uint64_t epoch = 0;          // that the answer is of
  // The state to check it against: of this collection; null: the current one.
  std::shared_ptr<const PinnedEpoch> at = nullptr;
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

  // A new, empty collection at `epoch`: 0, or one that goes on where an earlier one ended. It lives
  // as long as someone holds it. Errors: InvalidArgument (spec), FailedPrecondition (rows on the
  // host, and no memory was taken for them).
  virtual absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec,
                                                                       uint64_t epoch) = 0;
  absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec) {
    return CreateCollection(spec, 0);
  }

  // Finds, for every query, the k rows with the greatest score.
  // Exact as defined in proto/nearfield/v1/retrieval.proto, "Score". Thread-safe; batches run one
  // after another. Cost: one pass over the rows per tile of queries; no device allocation after
  // Create(). Errors: InvalidArgument (dim, k, non-finite value, zero query with cosine: names the
  // query), NotFound (row_id), Cancelled, Unavailable (device lost). The collection must come from
  // this engine. No rows: empty answers.
  virtual absl::StatusOr<SearchResult> Search(const Collection& collection,
                                              const SearchBatch& batch) = 0;

  // Checks an answer against the oracle, which reads every exact row back from the device and sorts
  // all of them. The query's filter, score_min and skip count as in a search. Slow by design: N *
  // dim multiplications on one core. Errors: as Search; FailedPrecondition where the claim's epoch
  // is not the one it is to be checked against (names both).
  virtual absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Claim& claim,
                                              const std::function<bool()>& cancelled) = 0;

  // Searches small random corpora of every metric, row type and id type and compares with the
  // oracle, bit for bit. Errors: DataLoss (a difference: says which), or what Search returned.
  virtual absl::Status SelfTest(uint64_t seed) = 0;
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_ENGINE_H_

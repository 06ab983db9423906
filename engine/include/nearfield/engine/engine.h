// Engine: exact retrieval on one device. It holds collections in device memory, searches them, and
// checks answers with the oracle.
#pragma once

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
#include "nearfield/engine/device_search.h"
#include "nearfield/engine/row_filter.h"
#include "nearfield/engine/row_terms.h"
#include "nearfield/engine/score_column.h"
#include "nearfield/engine/types.h"

namespace nearfield {

enum class BackendChoice : uint8_t { kAuto, kCpu, kGpu };

inline constexpr int32_t kAllDevices = -1;
inline constexpr int32_t kDevicesMax = 16;

// How several devices share the rows of a collection.
struct DeviceSpread {
  // A commit whose upload reserves at most this many bytes of rows is on one device: the one with
  // the most free memory. A larger one is on all. Rows for which a device has no memory go to the
  // others.
  int64_t one_device_bytes = int64_t{128} << 20;
  // Consecutive rows of an upload on one device. Smaller values are for tests.
  int64_t stripe_rows = 1024;
};

struct EngineOptions {
  // kAuto: the GPU if a usable one is present, else the CPU. kGpu: an error without a usable GPU.
  BackendChoice backend = BackendChoice::kAuto;
  // CUDA ordinal of the GPU.
  int32_t device = 0;
  // CUDA ordinals of several GPUs, in place of `device`; {kAllDevices}: all. They hold the
  // collections together. The answers are those of one GPU, to the bit.
  std::vector<int32_t> devices;
  // CPU backend: devices that share the cores and the memory; more than one is for tests. 1 ..
  // kDevicesMax.
  int32_t cpu_devices = 1;
  DeviceSpread spread;
  // Bytes of device memory for rows (CPU backend: host memory), allocated at creation; of each GPU.
  // 0: 85% of the free memory on the GPU; half of the physical memory on the CPU backend, whose
  // maximum is all of it. The physical memory is the machine's, or less if the cgroup of the
  // process has a lower limit.
  int64_t memory_bytes = 0;
  // Bytes of host memory for ids and payloads, at most the physical memory. 0: a quarter of it.
  int64_t host_memory_bytes = 0;
  // Bytes of page-locked host memory for the rows of collections with RowPlacement::kHost,
  // allocated at creation; in equal parts for several GPUs. GPU backend only: the CPU backend has
  // one memory for all rows.
  int64_t host_rows_bytes = 0;
  // Threads of the CPU backend's scan. 0: all cores.
  int32_t threads = 0;
  // Maximum k of a query; determines the GPU workspace. 1 .. kKMax.
  int32_t k_max = kKMax;
  // Maximum queries of a batch; determines the GPU workspace. 1 .. 65,536.
  int32_t batch_max = 1024;
  // Use only what every GPU of this compute capability has: 75 for 7.5, 80, 86, ...; 0: all that
  // the device has. The answers are the same; a lower value is for tests.
  int32_t gpu_capability_max = 0;
  // Maximum ordinals of a collection, in use by live rows and by deleted rows whose ordinals are
  // not released yet (row_filter.h). 1 .. 2^32; smaller values are for tests.
  int64_t ordinals_max = int64_t{1} << 32;
};

struct EngineInfo {
  BackendKind backend = BackendKind::kCpu;
  std::string device_name;  // "NVIDIA H200", or the CPU's instruction set and thread count
  std::string note;         // why this backend: "no CUDA driver found", "built without CUDA", ...
  int32_t k_max = 0;
  int32_t batch_max = 0;
  // Maximum dimension of a scan of codes on this device; collections above it scan their rows.
  int32_t scan_dim_max = 0;
  // Maximum rate at which the device streams its memory; 0: unknown. SearchCost::bytes_read divided
  // by it is the minimum time of a scan whose bytes are in no cache.
  double read_bytes_per_second = 0;
};

// The memory for rows of one of several devices.
struct DeviceCapacity {
  std::string name;  // "GPU 1 (NVIDIA H200)"
  int64_t bytes_total = 0;
  int64_t bytes_used = 0;
};

struct Capacity {
  int64_t device_bytes_total = 0;  // for rows, codes and their bounds, norms and ranks
  int64_t device_bytes_used = 0;   // committed rows, running uploads and results still in use
  int64_t host_bytes_total = 0;    // for ids and payloads
  int64_t host_bytes_used = 0;
  int64_t host_rows_bytes_total = 0;  // for rows of RowPlacement::kHost on the GPU backend
  int64_t host_rows_bytes_used = 0;
  std::vector<DeviceCapacity> devices;  // the parts of device_bytes, if there are several devices
};

// ResultPageCache: state that the pages of one search share, so that the next page costs at most
// one scan: one bit per row of the collection, set for the rows found so far, and the last rows
// found (at most two pages and 2 k_max rows, 12 bytes each). It belongs to one query, filter, terms
// and state; a search of another state, or for rows before the last page, resets it. Thread safety:
// one search at a time.
class ResultPageCache {
 public:
  virtual ~ResultPageCache() = default;
  virtual int64_t rows_count() const = 0;  // leading rows of the order that were found
  virtual int64_t bytes() const = 0;       // of host memory
};
// Creates a cache for a search that requests at most the first rows_max rows of the order.
std::shared_ptr<ResultPageCache> MakeResultPageCache(int64_t rows_max);

struct Query {
  absl::Span<const float> vector;  // [dim] fp32, borrowed for the call; or empty:
  std::optional<Id> row_id;        // score against this stored row, which the answer excludes
  int32_t k = 10;                  // 1 .. k_max
  // Rows that may be in the answer; null: all. Queries with the same filter object share its work.
  std::shared_ptr<const RowFilter> filter;
  // Adds numbers of the rows to their scores; null: nothing. Scores of the answer, its order and
  // score_threshold are then those of final scores. Queries with the same object share its work.
  std::shared_ptr<const RowTerms> terms;
  // Rows with a lower score are not in the answer. Not NaN.
  std::optional<float> score_threshold;
  // The answer begins after this many rows of the order: the next page. Beyond k_max - k it costs
  // one scan for every k_max rows.
  int64_t skip = 0;
  // The rows that earlier pages found, if there are several pages. A page then scans only for rows
  // that are not known yet, and reads ahead by up to as many rows as are known. May be null.
  std::shared_ptr<ResultPageCache> page_cache;
  // Report in Neighbors::more whether rows follow the answer. With score_threshold this needs the
  // following row, so an answer that ends at k_max rows of the order costs one more scan.
  bool tell_more = false;
  // Return in Neighbors::parts what each final score consists of. Reads the rows of the answer.
  bool tell_parts = false;

  // Returns the number of leading rows of the order that the answer depends on.
  int64_t rows_wanted() const { return skip + k + (tell_more && score_threshold ? 1 : 0); }
};

struct SearchBatch {
  std::vector<Query> queries;  // 1 .. batch_max
  // The state to search, of this collection; null: the current one.
  std::shared_ptr<const PinnedEpoch> at;
  RowParts parts;  // data to return in addition to ids and scores
  // Called between steps of long work; true ends the call with Cancelled. May be empty.
  std::function<bool()> cancelled;
};

// The parts of the final score of a row: score_weight * score + terms. Without row terms the final
// score is the score.
struct ScoreParts {
  float score = 0;
  double terms = 0;  // the sum of the row terms
};

// Neighbors of one query, ordered by (score descending, id ascending); never padded: min(k, rows
// that may be in the answer).
struct Neighbors {
  IdColumn ids;
  ScoreColumn scores;
  std::vector<uint8_t> rows;       // [scores.size(), dim] in the row type, if requested
  BytesColumn payloads;            // one value per neighbor, if requested
  std::vector<uint32_t> ordinals;  // one per neighbor, if requested: see FetchResult
  std::vector<ScoreParts> parts;   // one per neighbor, if Query::tell_parts
  // Rows that would be in the answer with unlimited k and without score_threshold: those that the
  // filter chose (without a filter, all live rows), except the row of a query by id.
  int64_t matched_rows = 0;
  bool more = false;  // tell_more: with a larger k, more rows would be in the answer
};

struct SearchCost {
  int64_t device_us =
      0;                 // from passing the batch to the backend until its results were on the host
  int64_t total_us = 0;  // the whole call
  int64_t rows_scanned = 0;  // live rows of the corpus
  // Rows that selection examined after the first threshold, summed over queries. In a scan of
  // codes: rows scored canonically.
  int64_t candidates = 0;
  int64_t bytes_read = 0;  // bytes of codes and rows that the scan had to read
  BackendKind backend = BackendKind::kCpu;
  ScanPrecision precision = ScanPrecision::kRows;  // the precision that most of the queries used
  ScanEscalations escalations;
};

struct SearchResult {
  uint64_t epoch = 0;
  std::vector<Neighbors> queries;  // one per query, in order
  SearchCost cost;
};

struct DeviceSearchResult {
  uint64_t epoch = 0;
  int64_t matched_rows = 0;  // rows that the filter chose; without a filter, all live rows
  SearchCost cost;
};

// An answer to check, with its query. Borrowed for the call.
struct Claim {
  const Query& query;
  const Neighbors& neighbors;  // ids and scores; the rest is ignored
  uint64_t epoch = 0;          // the epoch of the answer
  // The state to check it against, of this collection; null: the current one.
  std::shared_ptr<const PinnedEpoch> at = nullptr;
};

// The verdict of Verify for one query. `equal` is the whole verdict; the rest explains a
// difference.
struct VerifyResult {
  uint64_t epoch = 0;
  bool equal = false;
  int64_t rows_checked = 0;       // rows that the oracle scored
  int64_t first_difference = -1;  // position of the first wrong neighbor, -1 if equal
  std::string explanation;        // empty if equal
  Neighbors expected;             // the oracle's answer: ids and scores
};

class Engine {
 public:
  // Creates an engine and allocates all device memory. Errors: InvalidArgument (an option out of
  // range: names it, its value and the limit), FailedPrecondition (kGpu and no usable GPU: says
  // why), ResourceExhausted (memory_bytes cannot be allocated).
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);

  virtual ~Engine() = default;
  virtual EngineInfo Info() const = 0;
  virtual Capacity GetCapacity() const = 0;

  // Returns OK, or Unavailable once the device is lost: then every later call fails and the process
  // must be replaced.
  virtual absl::Status Health() const = 0;

  // Creates an empty collection at `epoch`: 0, or an epoch that continues the numbering of an
  // earlier collection. It exists until its last reference is released. Errors: InvalidArgument
  // (spec), FailedPrecondition (rows on the host, and no memory was allocated for them).
  virtual absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec,
                                                                       uint64_t epoch) = 0;
  absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec) {
    return CreateCollection(spec, 0);
  }

  // Returns, for every query, the k rows with the highest score. Exact as defined in
  // proto/nearfield/v1/retrieval.proto, "Score". Without rows the answers are empty. Requires: a
  // collection of this engine. Thread safety: thread-safe; batches run one after another. Cost: one
  // pass over the rows per tile of queries; no device allocation after Create(). Errors:
  // InvalidArgument (dim, k, non-finite value, zero query with cosine: names the query), NotFound
  // (row_id), Cancelled, Unavailable (device lost).
  virtual absl::StatusOr<SearchResult> Search(const Collection& collection,
                                              const SearchBatch& batch) = 0;

  // As Search, for queries and answers in the memory of the engine's GPU: the same ids and score
  // bits. Neither queries nor answers are copied to the host. The calling thread blocks until the
  // work that search.stream has now is done, and then until the answers are in device memory: work
  // that is enqueued later on any stream finds them there. Errors: as Search;
  // Unimplemented (the backend has no device memory), FailedPrecondition (string ids; a stream that
  // is being captured into a graph).
  virtual absl::StatusOr<DeviceSearchResult> SearchOnDevice(const Collection& /*collection*/,
                                                            const DeviceSearch& /*search*/) {
    return absl::UnimplementedError("this engine has no searches on the device");
  }

  // Takes device memory for answers from the memory of the rows, in whole slabs (2 MiB, or 256 KiB
  // if memory_bytes is below 1 GiB). Errors: InvalidArgument (bytes below 1), ResourceExhausted
  // (reports needed and free bytes), Unimplemented (the backend has no device memory).
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(int64_t /*bytes*/) {
    return absl::UnimplementedError("this engine has no device memory");
  }

  // Checks an answer against the oracle, which reads every exact row back from the device and sorts
  // all of them. The query's filter, score_threshold and skip apply as in a search. Slow by design:
  // N * dim multiplications on one core. Errors: as Search; FailedPrecondition (the claim's epoch
  // is not the epoch to check against; names both).
  virtual absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Claim& claim,
                                              const std::function<bool()>& cancelled) = 0;

  // Searches small random corpora of every metric, row type and id type and compares the answers
  // with the oracle, bit for bit. Errors: DataLoss (a difference: says which), or the error of
  // Search.
  virtual absl::Status SelfTest(uint64_t seed) = 0;
};

}  // namespace nearfield

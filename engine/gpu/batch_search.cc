#include "engine/gpu/batch_search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/device_io.h"
#include "engine/plan/batch_plan.h"
#include "engine/plan/scan_cost.h"

namespace nearfield::gpu {
namespace {

static_assert(kDimMax <= kBatchDimMax);

constexpr int64_t kCapacityMax = 32768;
constexpr int64_t kLongCapacityMax = 4 * kCapacityMax;
constexpr int64_t kCapacityMin = 4096;
constexpr int64_t kCapacityPerNeighbor = 16;
constexpr int64_t kCapacityPerNeighborMax = 32;
constexpr int64_t kAlign = 256;
// Maximum queries of a part, if the host merges the answers. A larger batch runs in parts, so that
// the host's work for one overlaps with the device's for another.
constexpr int64_t kPartQueriesMax = 512;
// The cost of taking an answer, in bytes that could be copied in the same time.
constexpr int64_t kHostBytesPerQuery = 1024;
constexpr int64_t kHostBytesPerKey = 128;
// Parts of a batch have a multiple of this: the queries that two blocks of the scan multiply, which
// share the copies of the rows.
constexpr int64_t kPartAlign = 256;

// The bytes of device memory of a batch that do not depend on the number of queries: the corpus,
// and what alignment adds to each of the parts in Stage.
constexpr int64_t kSharedDeviceBytes = int64_t{sizeof(CodedCorpus)} + 11 * kAlign;

// Returns the bytes of what the queries of a batch do not see, for each of them.
int64_t AbsentBytes(const SearchJob& job) {
  return job.absent.empty() ? 0 : job.corpus.count * int64_t{sizeof(AbsentView)};
}

// Returns the keys in whose place a query stores what it must reach in each tile of rows.
int64_t ReachKeys(const SearchJob& job) {
  if (job.terms.empty()) return 0;
  constexpr int64_t kTilesOfKey = int64_t{sizeof(uint64_t) / sizeof(float)};
  return CeilDiv(job.corpus.row_index_end / kBatchTileRows, kTilesOfKey);
}

// Returns the bytes of device memory that a query needs in addition to its queue.
int64_t QueryDeviceBytes(const SearchJob& job, int32_t code_bytes) {
  return int64_t{4} * job.format.dim + int64_t{2} * code_bytes +
         int64_t{sizeof(BatchQuery) + sizeof(AnswerPlace) + sizeof(int32_t)} + AbsentBytes(job) +
         BatchTermsBytes(job);
}

// Returns the bytes of a query's code.
int32_t CodeStrideOf(const SearchJob& job, BatchSource source) {
  return source == BatchSource::kRows ? job.shape.padded : job.planes.front()->codes().code_bytes;
}

// Returns the bytes that the scan of some queries reads.
int64_t ScannedBytes(const GpuCore& core, const SearchJob& job, BatchSource source,
                     int64_t queries) {
  const CodedCorpus& corpus = job.corpus;
  const int32_t code_bytes = corpus.generations[0].codes.code_bytes;
  int64_t at_once = kRowBatchQueries;
  int64_t row_bytes = corpus.generations[0].rows.row_bytes;
  if (source == BatchSource::kCodes) {
    at_once = BatchQueriesAtOnce(core.batch_device(), static_cast<int>(queries), code_bytes);
    row_bytes = code_bytes + int64_t{sizeof(bound::RowBound)};
  }
  int64_t rows = 0;
  for (const CodedGeneration& generation : absl::MakeConstSpan(corpus.generations, corpus.count)) {
    rows += generation.rows_count;
  }
  return CeilDiv(queries, at_once) * rows * row_bytes;
}

// Copies the rows that the queries do not see to `host`, and returns them there.
const AbsentView* StageAbsent(const SearchJob& job, QuerySpan queries, char* host) {
  auto* to = reinterpret_cast<AbsentView*>(host);
  for (const int64_t query : queries) {
    const auto& of_query = *job.absent[static_cast<std::size_t>(query)];
    to = std::copy(of_query.begin(), of_query.end(), to);
  }
  return reinterpret_cast<const AbsentView*>(host);
}

}  // namespace

bool BatchServesRows(const GpuCore& core, const SearchJob& job) {
  const int64_t row_index_end = RowIndexEnd(job);
  return core.BatchServes(job.format.dim, LargestK(job)) && 0 < row_index_end &&
         row_index_end < int64_t{kScoredBit};
}

// Returns a shape for the first of some queries: as many as have room for their queues, vectors and
// answers. It has no queries if the kernels cannot serve them.
BatchSearch::Shape BatchSearch::ShapeBatch(const SearchJob& job, const BatchWay& way,
                                           QuerySpan queries) const {
  const CodedCorpus& corpus = job.corpus;
  const plan::EngineLimits& limits = core_.engine_limits();
  Shape shape = {.way = way, .queries = {}};
  if (corpus.row_index_end >= kScoredBit) return shape;
  int64_t count = std::min<int64_t>(TakenTogether(job, queries), kBatchQueriesMax);
  if (!job.MergesOnDevice(count)) {
    const int64_t parts = CeilDiv(count, kPartQueriesMax);
    count = std::min(count, RoundUp(CeilDiv(count, parts), kPartAlign));
  }
  shape.k = LargestK(job, queries.first(static_cast<std::size_t>(count)));
  if (!core_.BatchServes(job.format.dim, shape.k)) return shape;
  const int32_t ties_most = (corpus.count - 1) * shape.k;
  const int32_t ties_room = std::max(kBatchTiesMin, kBatchKeysOfTies - shape.k);
  shape.keys_pitch =
      shape.k + (corpus.count == 1 ? 0 : std::clamp(ties_most, kBatchTiesMin, ties_room));
  const int64_t least = std::max(kCapacityMin, kCapacityPerNeighbor * shape.k);
  count = std::min(
      {count, limits.keys_max / (least + ReachKeys(job)),
       (kBatchBytes - kSharedDeviceBytes) / QueryDeviceBytes(job, CodeStrideOf(job, way.source)),
       limits.result_keys_max / shape.keys_pitch});
  if (count == 0) return shape;
  // The last part is not a small one.
  if (count > kPartAlign && count < static_cast<int64_t>(queries.size())) {
    count = count / kPartAlign * kPartAlign;
  }
  shape.queries = queries.first(static_cast<std::size_t>(count));
  shape.capacity =
      std::min({way.long_queues ? kLongCapacityMax
                                : std::max(kCapacityMax, kCapacityPerNeighborMax * shape.k),
                limits.keys_max / count - ReachKeys(job)});
  CHECK_LE(count * (shape.capacity + ReachKeys(job)), limits.keys_max);
  CHECK_LE(count * shape.keys_pitch, limits.result_keys_max);
  return shape;
}

// Sets args.vectors, where kernels read some queries on the device, and args.input.vectors if the
// encoder must bring them there: from where they lie in mapped host memory, or from copies in
// `host`. Before the call, args.vectors is room for them.
absl::Status BatchSearch::StageVectors(const SearchJob& job, const Shape& shape, char* host,
                                       BatchArgs& args) {
  const int64_t dim = job.format.dim;
  const int64_t bytes = int64_t{sizeof(float)} * dim;  // of a vector
  const auto queries = static_cast<int64_t>(shape.queries.size());
  if (job.device != nullptr) {
    return EnqueueWiden(core_, job, RangeOf(shape.queries), args.vectors, nullptr);
  }
  if (job.InQueryMemory(shape.queries)) {
    // The host and the kernels address the memory of queries by the same pointer (PinnedMemory).
    const float* const values = job.queries->queries + shape.queries.front() * dim;
    ABSL_ASSIGN_OR_RETURN(float* const sent,
                          core_.query_memory().Sent(values, core_.workspace().stream.get()));
    if (sent != nullptr) {
      args.vectors = sent;
    } else {
      args.input.vectors = values;
    }
    return absl::OkStatus();
  }
  args.input.vectors = reinterpret_cast<const float*>(host);
  const auto* const vectors = reinterpret_cast<const char*>(job.queries->queries);
  return job.ForEachOnHost(queries, bytes * queries, [&](int64_t i) {
    std::memcpy(host + bytes * i, vectors + shape.queries[static_cast<std::size_t>(i)] * bytes,
                static_cast<std::size_t>(bytes));
    return absl::OkStatus();
  });
}

absl::StatusOr<BatchArgs> BatchSearch::Stage(const SearchJob& job, const Shape& shape) {
  SearchWorkspace& workspace = core_.workspace();
  const int64_t dim = job.format.dim;
  const auto queries = static_cast<int64_t>(shape.queries.size());
  const bool merges = job.MergesOnDevice(queries);
  BatchArgs args;
  args.corpus = job.corpus;
  args.rotation = bound::RotationShapeOf(job.format.dim, job.format.seed);
  args.metric = job.format.metric;
  args.source = shape.way.source;
  args.queries = static_cast<int32_t>(queries);
  args.k_max = shape.k;
  args.overflowed = shape.way.long_queues;
  args.code_stride = CodeStrideOf(job, shape.way.source);
  // The encoder brings vectors, k, places, absent rows and the corpus to device memory; codes and
  // states are computed there.
  const int64_t k_at = RoundUp(4 * dim * queries, kAlign);
  const int64_t places_at = RoundUp(k_at + 4 * queries, kAlign);
  const int64_t places_bytes = merges ? queries * int64_t{sizeof(AnswerPlace)} : 0;
  const int64_t absent_at = RoundUp(places_at + places_bytes, kAlign);
  const int64_t terms_at = RoundUp(absent_at + AbsentBytes(job) * queries, kAlign);
  const int64_t corpus_at = RoundUp(terms_at + BatchTermsBytes(job) * queries, kAlign);
  const int64_t first_at = RoundUp(corpus_at + int64_t{sizeof(CodedCorpus)}, kAlign);
  const int64_t second_at = RoundUp(first_at + args.code_stride * queries, kAlign);
  const int64_t state_at = RoundUp(second_at + args.code_stride * queries, kAlign);
  CHECK_LE(state_at + queries * int64_t{sizeof(BatchQuery)}, kBatchBytes);
  char* const device = workspace.batch + shape.place * kBatchBytes;
  char* const host = workspace.batch_host.host() + shape.place * kBatchBytes;
  args.vectors = reinterpret_cast<float*>(device);
  ABSL_RETURN_IF_ERROR(StageVectors(job, shape, host, args));
  auto* const k = reinterpret_cast<int32_t*>(host + k_at);
  for (int64_t i = 0; i < queries; ++i) {
    k[i] = job.queries->k[static_cast<std::size_t>(shape.queries[i])];
  }
  args.input.k = k;
  if (merges) {
    auto* const places = reinterpret_cast<AnswerPlace*>(host + places_at);
    CopyPlaces(job, shape.queries, places);
    args.input.places = places;
    args.places = reinterpret_cast<AnswerPlace*>(device + places_at);
  }
  if (!job.absent.empty()) {
    args.input.absent = StageAbsent(job, shape.queries, host + absent_at);
    args.absent = reinterpret_cast<AbsentView*>(device + absent_at);
  }
  if (!job.terms.empty()) {
    args.input.terms = reinterpret_cast<BatchTermList*>(host + terms_at);
    args.terms = reinterpret_cast<BatchTermList*>(device + terms_at);
    args.terms_bytes = StageTerms(job, shape.queries, host + terms_at, device + terms_at);
    args.reach = reinterpret_cast<float*>(workspace.keys + queries * shape.capacity);
  }
  args.corpus_in_memory = reinterpret_cast<CodedCorpus*>(device + corpus_at);
  args.k = reinterpret_cast<int32_t*>(device + k_at);
  args.first = device + first_at;
  args.second = device + second_at;
  args.state = reinterpret_cast<BatchQuery*>(device + state_at);
  args.queues = reinterpret_cast<QueueEntry*>(workspace.keys);
  args.capacity = static_cast<uint32_t>(shape.capacity);
  args.keys_pitch = static_cast<uint32_t>(shape.keys_pitch);
  if (merges) {
    args.keys = workspace.device_results;
    args.outcomes = reinterpret_cast<BatchOutcome*>(workspace.device_counts);
  } else {
    args.keys = reinterpret_cast<uint64_t*>(workspace.results.device()) +
                shape.place * core_.engine_limits().result_keys_max;
    args.outcomes = reinterpret_cast<BatchOutcome*>(workspace.batch_outcomes.device()) +
                    shape.place * kBatchQueriesMax;
  }
  return args;
}

// Enqueues the merge of the keys into the answers on the device, which also brings the outcomes to
// the host.
absl::Status BatchSearch::EnqueueAnswers(const SearchJob& job, const Shape& shape,
                                         const BatchArgs& args) {
  static_assert(sizeof(BatchOutcome) == sizeof(uint4));
  SearchWorkspace& workspace = core_.workspace();
  KeyLists lists = MixedLists(job);
  lists.pitch = args.keys_pitch;
  lists.counts = &args.outcomes->keys;
  lists.overflows = &args.outcomes->overflow;
  lists.counts_stride = 4;
  lists.count_max = args.keys_pitch;
  const FactsCopy outcomes = {.from = reinterpret_cast<const uint4*>(args.outcomes),
                              .to = reinterpret_cast<uint4*>(workspace.batch_outcomes.device()) +
                                    shape.place * kBatchQueriesMax};
  return EnqueueGather(core_, job, shape.queries, args.places, lists, outcomes);
}

// Enqueues all steps of some queries.
absl::Status BatchSearch::Enqueue(const SearchJob& job, const Shape& shape) {
  SearchWorkspace& workspace = core_.workspace();
  DeviceHealth& health = core_.health();
  cudaStream_t stream = workspace.stream.get();
  ABSL_ASSIGN_OR_RETURN(const BatchArgs args, Stage(job, shape));
  ABSL_RETURN_IF_ERROR(health.Check(LaunchBatchEncode(args, stream), "encoding queries"));
  const std::vector<plan::ScanStage> stages = plan::PlanStages(
      args.corpus.row_index_end / kBatchTileRows, kBatchTileRows, shape.k, shape.capacity);
  int64_t done = 0;  // tiles
  for (const plan::ScanStage& one : stages) {
    BatchStage stage = {.step = static_cast<uint32_t>(one.step),
                        .done_step = static_cast<uint32_t>(one.done_step),
                        .tiles = static_cast<uint32_t>(one.tiles),
                        .last = &one == &stages.back()};
    done += one.tiles;
    if (!stage.last) {
      const int64_t next = (&one + 1)->tiles;
      stage.kept_max = static_cast<uint32_t>(shape.capacity * done / (done + next));
    }
    if (args.terms != nullptr && stage.done_step != 0) {
      ABSL_RETURN_IF_ERROR(health.Check(LaunchBatchReach(args, stage, stream),
                                        "launching what row terms must reach"));
    }
    ABSL_RETURN_IF_ERROR(health.Check(
        LaunchBatchScan(job.format.row_type, args, stage, core_.batch_device(), stream),
        "launching the scan of a batch"));
    ABSL_RETURN_IF_ERROR(health.Check(
        LaunchBatchRefine(job.format.row_type, args, stage, core_.batch_device(), stream),
        "launching the refinement of a batch"));
  }
  if (job.MergesOnDevice(args.queries)) {
    ABSL_RETURN_IF_ERROR(EnqueueAnswers(job, shape, args));
  }
  return health.Check(cudaEventRecord(workspace.batch_done[shape.place].get(), stream),
                      "cudaEventRecord");
}

// Waits for some queries, moves their keys into the output, and adds their cost.
absl::Status BatchSearch::Finish(const SearchJob& job, const Shape& shape, DeviceIs device,
                                 SearchOutput& out, BatchLeft& left) const {
  SearchWorkspace& workspace = core_.workspace();
  const QuerySpan queries = shape.queries;
  const auto count = static_cast<int64_t>(queries.size());
  ABSL_RETURN_IF_ERROR(core_.health().Check(
      cudaEventSynchronize(workspace.batch_done[shape.place].get()), "cudaEventSynchronize"));
  if (job.device != nullptr) ABSL_RETURN_IF_ERROR(CheckFaults(core_, job, RangeOf(queries)));
  out.cost.bytes_read += ScannedBytes(core_, job, shape.way.source, count);
  const auto* const outcomes =
      reinterpret_cast<const BatchOutcome*>(workspace.batch_outcomes.host()) +
      shape.place * kBatchQueriesMax;
  const auto* const keys = reinterpret_cast<const uint64_t*>(workspace.results.host()) +
                           shape.place * core_.engine_limits().result_keys_max;
  int64_t bytes = count * kHostBytesPerQuery;
  for (int64_t i = 0; i < count; ++i) {
    const BatchOutcome& outcome = outcomes[i];
    out.cost.candidates += outcome.rescored;
    out.cost.bytes_read += outcome.rescored * job.corpus.generations[0].rows.row_bytes;
    if (outcome.overflow != 0) {
      left.overflowed.push_back(queries[i]);
    } else {
      CHECK_LE(int64_t{outcome.keys}, shape.keys_pitch);
      if (shape.way.source == BatchSource::kCodes) ++out.cost.queries_of_codes;
      bytes += kHostBytesPerKey * outcome.keys;
    }
  }
  if (job.device != nullptr) return absl::OkStatus();
  // This search holds the device, so it merges answers only while the device works for it. The
  // caller merges the others afterwards.
  const bool report = device == DeviceIs::kBusy && job.queries->answered;
  if (job.MergesOnDevice(count)) {
    for (int64_t i = 0; i < count; ++i) {
      if (outcomes[i].overflow == 0) {
        GiveFinished(job, queries[i], out.best);
      } else {
        out.best.Unfinish(static_cast<std::size_t>(queries[i]));
      }
    }
    return absl::OkStatus();
  }
  return job.ForEachOnHost(count, bytes, [&](int64_t i) {
    const BatchOutcome& outcome = outcomes[i];
    if (outcome.overflow != 0) return absl::OkStatus();
    TakeKeys(job, queries[i], {keys + i * shape.keys_pitch, outcome.keys}, out.best);
    return report ? job.queries->answered(queries[i]) : absl::OkStatus();
  });
}

absl::Status BatchSearch::Search(const SearchJob& job, const BatchWay& way, QuerySpan queries,
                                 SearchOutput& out, BatchLeft& left) {
  Shape running;  // the device works on these
  while (!queries.empty()) {
    ABSL_RETURN_IF_ERROR(job.CheckCancelled());
    Shape next = ShapeBatch(job, way, queries);
    const auto count = static_cast<int64_t>(next.queries.size());
    if (way.source == BatchSource::kCodes &&
        (count == 0 || !plan::PrefersBatch(WorkOf(core_, job, count)))) {
      left.singles.push_back(queries.front());
      queries.remove_prefix(1);
      continue;
    }
    CHECK_GT(count, 0);
    queries.remove_prefix(next.queries.size());
    next.place = running.queries.empty() ? 0 : (running.place + 1) % kBatchesMax;
    ABSL_RETURN_IF_ERROR(Enqueue(job, next));
    PlaceFinished(job, next.queries, out.best);
    if (!running.queries.empty()) {
      ABSL_RETURN_IF_ERROR(Finish(job, running, DeviceIs::kBusy, out, left));
    }
    running = next;
    if (job.device == nullptr) continue;
    ABSL_RETURN_IF_ERROR(Finish(job, running, DeviceIs::kIdle, out, left));
    running = {};
  }
  if (running.queries.empty()) return absl::OkStatus();
  return Finish(job, running, DeviceIs::kIdle, out, left);
}

}  // namespace nearfield::gpu

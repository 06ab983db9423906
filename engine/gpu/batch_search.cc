#include "engine/gpu/batch_search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/host_work.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/device_io.h"
#include "engine/plan/batch_plan.h"
#include "engine/plan/scan_cost.h"

namespace nearfield::gpu {
namespace {

static_assert(kDimMax <= kBatchDimMax);

constexpr int64_t kCapacityMax = 32768;
constexpr int64_t kCapacityMin = 4096;
constexpr int64_t kCapacityPerNeighbor = 16;
constexpr int64_t kAlign = 256;

// Returns the bytes of device memory that a query needs in addition to its queue.
int64_t QueryDeviceBytes(int32_t dim, int32_t code_bytes) {
  return int64_t{4} * dim + int64_t{2} * code_bytes + int64_t{sizeof(BatchQuery)} + 4;
}

// Runs body(i) for each i in [0, count), on several threads if `work` is not null.
absl::Status ParallelForOnHost(HostWork* work, int64_t count, int64_t bytes,
                               absl::FunctionRef<absl::Status(int64_t)> body) {
  if (work != nullptr) return work->ParallelFor(count, bytes, body);
  for (int64_t i = 0; i < count; ++i) ABSL_RETURN_IF_ERROR(body(i));
  return absl::OkStatus();
}

}  // namespace

// Returns a shape for queries [first_query, ...): as many as have room for their queues, vectors
// and answers. Its `queries` is 0 if the kernels cannot serve them.
BatchSearch::Shape BatchSearch::ShapeBatch(const SearchJob& job, int64_t first_query) const {
  const CodedCorpus& corpus = job.corpus;
  const plan::EngineLimits& limits = core_.engine_limits();
  const absl::Span<const int32_t> k = job.queries->k.subspan(static_cast<std::size_t>(first_query));
  Shape shape;
  if (job.format.dim > core_.batch_dim_max() || corpus.row_index_end >= kScoredBit) return shape;
  int64_t queries = std::min<int64_t>(static_cast<int64_t>(k.size()), kBatchQueriesMax);
  shape.k = *std::max_element(k.begin(), k.begin() + queries);
  if (shape.k > kBatchKMax) return shape;
  const int32_t code_bytes = corpus.generations[0].codes.code_bytes;
  // Ranks of different generations do not compare, so all rows that reach the threshold are needed.
  shape.keys_pitch = corpus.count == 1 ? shape.k : static_cast<int32_t>(kBatchKeysMax);
  const int64_t least = std::max(kCapacityMin, kCapacityPerNeighbor * shape.k);
  queries = std::min({queries, limits.keys_max / least,
                      (kBatchBytes - 8 * kAlign) / QueryDeviceBytes(job.format.dim, code_bytes),
                      limits.result_keys_max / shape.keys_pitch});
  shape.queries = queries;
  if (queries > 0) shape.capacity = std::min(kCapacityMax, limits.keys_max / queries);
  CHECK_LE(queries * shape.capacity, limits.keys_max);
  CHECK_LE(queries * shape.keys_pitch, limits.result_keys_max);
  return shape;
}

absl::StatusOr<BatchArgs> BatchSearch::Stage(const SearchJob& job, int64_t first_query,
                                             const Shape& shape) {
  SearchWorkspace& workspace = core_.workspace();
  const int64_t dim = job.format.dim;
  const int64_t queries = shape.queries;
  BatchArgs args;
  args.corpus = job.corpus;
  args.rotation = bound::RotationShapeOf(job.format.dim, job.format.seed);
  args.metric = job.format.metric;
  args.queries = static_cast<int32_t>(queries);
  args.code_stride = job.corpus.generations[0].codes.code_bytes;
  // Vectors and k are copied to the device together; codes and states are computed there. Vectors
  // that are on the device are converted there.
  const int64_t k_at = RoundUp(4 * dim * queries, kAlign);
  const int64_t first_at = RoundUp(k_at + 4 * queries, kAlign);
  const int64_t second_at = RoundUp(first_at + args.code_stride * queries, kAlign);
  const int64_t state_at = RoundUp(second_at + args.code_stride * queries, kAlign);
  char* const device = workspace.batch;
  char* const host = workspace.batch_host.host();
  int64_t copied_from = 0;
  if (job.device != nullptr) {
    copied_from = k_at;
    ABSL_RETURN_IF_ERROR(EnqueueWiden(core_, job, {.first = first_query, .count = queries},
                                      reinterpret_cast<float*>(device), nullptr));
  } else {
    ABSL_RETURN_IF_ERROR(
        ParallelForOnHost(job.queries->host_work, queries, 4 * dim * queries, [&](int64_t i) {
          std::memcpy(host + 4 * dim * i, job.queries->queries + (first_query + i) * dim,
                      static_cast<std::size_t>(4 * dim));
          return absl::OkStatus();
        }));
  }
  std::memcpy(host + k_at, job.queries->k.data() + first_query,
              static_cast<std::size_t>(4 * queries));
  ABSL_RETURN_IF_ERROR(core_.health().Check(
      cudaMemcpyAsync(device + copied_from, host + copied_from,
                      static_cast<std::size_t>(k_at + 4 * queries - copied_from),
                      cudaMemcpyHostToDevice, workspace.stream.get()),
      "cudaMemcpyAsync"));
  args.vectors = reinterpret_cast<const float*>(device);
  args.k = reinterpret_cast<const int32_t*>(device + k_at);
  args.first = device + first_at;
  args.second = device + second_at;
  args.state = reinterpret_cast<BatchQuery*>(device + state_at);
  args.queues = reinterpret_cast<QueueEntry*>(workspace.keys);
  args.capacity = static_cast<uint32_t>(shape.capacity);
  const bool stays = job.device != nullptr;
  args.keys =
      stays ? workspace.device_results : reinterpret_cast<uint64_t*>(workspace.results.device());
  args.keys_pitch = static_cast<uint32_t>(shape.keys_pitch);
  args.outcomes = reinterpret_cast<BatchOutcome*>(stays ? workspace.device_counts
                                                        : workspace.batch_outcomes.device());
  return args;
}

// Enqueues the merge of the keys into the answers on the device, and the copy of the outcomes.
absl::Status BatchSearch::EnqueueAnswers(const SearchJob& job, int64_t first_query,
                                         const BatchArgs& args) {
  static_assert(sizeof(BatchOutcome) == 4 * sizeof(uint32_t));
  SearchWorkspace& workspace = core_.workspace();
  KeyLists lists = MixedLists(job);
  lists.pitch = args.keys_pitch;
  lists.counts = &args.outcomes->reached;
  lists.overflows = &args.outcomes->overflow;
  lists.counts_stride = 4;
  lists.count_max = args.keys_pitch;
  ABSL_RETURN_IF_ERROR(
      EnqueueGather(core_, job, {.first = first_query, .count = args.queries}, lists));
  return core_.health().Check(
      cudaMemcpyAsync(workspace.batch_outcomes.host(), args.outcomes,
                      static_cast<std::size_t>(args.queries) * sizeof(BatchOutcome),
                      cudaMemcpyDeviceToHost, workspace.stream.get()),
      "cudaMemcpyAsync");
}

absl::Status BatchSearch::Run(const SearchJob& job, int64_t first_query, const BatchArgs& args,
                              const Shape& shape) {
  SearchWorkspace& workspace = core_.workspace();
  DeviceHealth& health = core_.health();
  cudaStream_t stream = workspace.stream.get();
  ABSL_RETURN_IF_ERROR(health.Check(LaunchBatchEncode(args, stream), "encoding queries"));
  const std::vector<plan::ScanStage> stages = plan::PlanStages(
      args.corpus.row_index_end / kBatchTileRows, kBatchTileRows, shape.k, shape.capacity);
  for (const plan::ScanStage& one : stages) {
    const BatchStage stage = {.step = static_cast<uint32_t>(one.step),
                              .done_step = static_cast<uint32_t>(one.done_step),
                              .tiles = static_cast<uint32_t>(one.tiles),
                              .last = &one == &stages.back()};
    ABSL_RETURN_IF_ERROR(health.Check(LaunchBatchScan(args, stage, core_.batch_device(), stream),
                                      "launching the scan of a batch"));
    ABSL_RETURN_IF_ERROR(health.Check(
        LaunchBatchRefine(job.format.row_type, args, stage, core_.batch_device(), stream),
        "launching the refinement of a batch"));
  }
  if (job.device != nullptr) ABSL_RETURN_IF_ERROR(EnqueueAnswers(job, first_query, args));
  return health.Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

// Moves the keys of the batch into the output and adds the cost of the batch.
absl::Status BatchSearch::TakeResults(const SearchJob& job, int64_t first_query, const Shape& shape,
                                      SearchOutput& out, std::vector<int64_t>& left) const {
  SearchWorkspace& workspace = core_.workspace();
  if (job.device != nullptr) {
    ABSL_RETURN_IF_ERROR(CheckFaults(core_, job, {.first = first_query, .count = shape.queries}));
  }
  const CodedCorpus& corpus = job.corpus;
  const int64_t at_once = BatchQueriesAtOnce(core_.batch_device(), static_cast<int>(shape.queries),
                                             corpus.generations[0].codes.code_bytes);
  for (const CodedGeneration& generation : absl::MakeConstSpan(corpus.generations, corpus.count)) {
    out.cost.bytes_read += CeilDiv(shape.queries, at_once) * generation.rows_count *
                           (generation.codes.code_bytes + int64_t{sizeof(bound::RowBound)});
  }
  const auto* const outcomes =
      reinterpret_cast<const BatchOutcome*>(workspace.batch_outcomes.host());
  const auto* const keys = reinterpret_cast<const uint64_t*>(workspace.results.host());
  int64_t keys_bytes = 0;
  for (int64_t i = 0; i < shape.queries; ++i) {
    const BatchOutcome& outcome = outcomes[i];
    out.cost.candidates += outcome.rescored;
    out.cost.bytes_read += outcome.rescored * corpus.generations[0].rows.row_bytes;
    if (outcome.overflow != 0) {
      left.push_back(first_query + i);
      ++out.cost.escalations.tighter;
    } else {
      // Several generations need all rows that reach the threshold.
      CHECK(corpus.count == 1 || int64_t{outcome.reached} <= shape.keys_pitch);
      ++out.cost.queries_of_codes;
      keys_bytes += int64_t{8} * outcome.reached;
    }
  }
  if (job.device != nullptr) return absl::OkStatus();
  return ParallelForOnHost(job.queries->host_work, shape.queries, 4 * keys_bytes, [&](int64_t i) {
    const BatchOutcome& outcome = outcomes[i];
    const auto count =
        std::min<std::size_t>(outcome.reached, static_cast<std::size_t>(shape.keys_pitch));
    if (outcome.overflow == 0) {
      TakeKeys(job, first_query + i, {keys + i * shape.keys_pitch, count}, out.best);
    }
    return absl::OkStatus();
  });
}

absl::Status BatchSearch::Search(const SearchJob& job, SearchOutput& out,
                                 std::vector<int64_t>& left) {
  const int64_t queries = job.queries_count();
  for (int64_t first = 0; first < queries;) {
    ABSL_RETURN_IF_ERROR(job.CheckCancelled());
    const Shape shape = ShapeBatch(job, first);
    if (shape.queries == 0 || !plan::PrefersBatch(WorkOf(core_, job, shape.queries))) {
      left.push_back(first++);
      continue;
    }
    ABSL_ASSIGN_OR_RETURN(const BatchArgs args, Stage(job, first, shape));
    ABSL_RETURN_IF_ERROR(Run(job, first, args, shape));
    ABSL_RETURN_IF_ERROR(TakeResults(job, first, shape, out, left));
    first += shape.queries;
  }
  return absl::OkStatus();
}

}  // namespace nearfield::gpu

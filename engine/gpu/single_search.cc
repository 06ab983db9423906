#include "engine/gpu/single_search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/bound/rotation_shape.h"
#include "engine/gpu/device_io.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/score/squared_norm.h"

namespace nearfield::gpu {
namespace {

// Samples per requested neighbor: makes the k-th best sample close to the k-th best of all rows.
constexpr int64_t kSamplesPerNeighbor = 4;
constexpr int64_t kSamplesPerBlockMin = 4;

uint32_t SamplesPerBlock(int32_t k, int64_t blocks) {
  const int64_t wanted = CeilDiv(kSamplesPerNeighbor * k, blocks);
  const int64_t most = std::min<int64_t>(kSamplesPerBlockMax, kSamplesMax / blocks);
  return static_cast<uint32_t>(std::clamp(wanted, std::min(kSamplesPerBlockMin, most), most));
}

// Returns the bytes of the bounds of all rows.
int64_t UppersBytes(int64_t row_index_end) {
  return RoundUp(row_index_end * int64_t{sizeof(float)}, int64_t{sizeof(double)});
}

}  // namespace

bool SingleSearch::HasRoom(const GpuCore& core, int64_t row_index_end, bool terms) {
  const int64_t sums_bytes = terms ? row_index_end * int64_t{sizeof(double)} : 0;
  return UppersBytes(row_index_end) + sums_bytes <=
         core.engine_limits().keys_max * int64_t{sizeof(uint64_t)};
}

OneQueryArgs SingleSearch::SharedArgs(const SearchJob& job) const {
  SearchWorkspace& workspace = core_.workspace();
  OneQueryArgs args;
  args.corpus = job.corpus;
  args.dim = job.format.dim;
  args.metric = job.format.metric;
  args.uppers = reinterpret_cast<float*>(workspace.keys);
  args.samples = workspace.samples;
  args.candidates = workspace.code_candidates;
  args.state = workspace.code_state;
  args.keys = job.MergesOnDevice(1) ? workspace.device_results
                                    : reinterpret_cast<uint64_t*>(workspace.results.device());
  args.outcome = reinterpret_cast<OneQueryOutcome*>(workspace.code_outcome.device());
  return args;
}

absl::Status SingleSearch::EnqueueSums(const SearchJob& job, int64_t query, OneQueryArgs& args) {
  args.sums = nullptr;
  const DeviceTerms* const terms = job.TermsOf(query);
  if (terms == nullptr) return absl::OkStatus();
  SearchWorkspace& workspace = core_.workspace();
  auto* const sums = reinterpret_cast<double*>(reinterpret_cast<char*>(workspace.keys) +
                                               UppersBytes(job.corpus.row_index_end));
  args.sums = sums;
  args.score_weight = terms->list.score_weight;
  return core_.health().Check(LaunchTermSums(SumsArgs(job, *terms, sums), workspace.stream.get()),
                              "launching the sums of row terms");
}

absl::Status SingleSearch::StageCodes(const SearchJob& job, const float* vector,
                                      OneQueryArgs& args) {
  SearchWorkspace& workspace = core_.workspace();
  const auto dim = static_cast<std::size_t>(job.format.dim);
  const int32_t code_bytes = args.corpus.generations[0].codes.code_bytes;
  const auto codes_size = std::size_t{2} * static_cast<std::size_t>(code_bytes);
  const int64_t query_bytes = QueryBytes(job.format.dim, code_bytes);
  const bool travels = query_bytes <= kInlineQueryBytes;
  char* const bytes = travels ? args.inline_query : workspace.queries_host.host();
  std::memset(bytes, 0, codes_size);
  auto* const codes = reinterpret_cast<int8_t*>(bytes);
  args.bound =
      encoder_
          .Encode(Rotation(job.format), job.format.metric, absl::MakeConstSpan(vector, dim),
                  absl::MakeSpan(codes, dim), absl::MakeSpan(codes + code_bytes, dim))
          .both;
  std::memcpy(bytes + codes_size, vector, dim * sizeof(float));
  if (travels) return absl::OkStatus();
  args.query = workspace.queries;
  return core_.health().Check(
      cudaMemcpyAsync(workspace.queries, bytes, static_cast<std::size_t>(query_bytes),
                      cudaMemcpyHostToDevice, workspace.stream.get()),
      "cudaMemcpyAsync");
}

absl::Status SingleSearch::StageOnDevice(const SearchJob& job, int64_t query, OneQueryArgs& args) {
  SearchWorkspace& workspace = core_.workspace();
  const int32_t code_bytes = args.corpus.generations[0].codes.code_bytes;
  auto* const vector = reinterpret_cast<float*>(workspace.queries + int64_t{2} * code_bytes);
  ABSL_RETURN_IF_ERROR(EnqueueWiden(core_, job, {.first = query, .count = 1}, vector, nullptr));
  // The memory of a batch is free: it holds the state of a batch of one.
  auto* const state = reinterpret_cast<BatchQuery*>(workspace.batch);
  BatchArgs batch;
  batch.rotation = bound::RotationShapeOf(job.format.dim, job.format.seed);
  batch.metric = job.format.metric;
  batch.queries = 1;
  batch.code_stride = code_bytes;
  batch.vectors = vector;
  batch.first = workspace.queries;
  batch.second = workspace.queries + code_bytes;
  batch.state = state;
  args.query = workspace.queries;
  args.device_bound = &state->both;
  args.device_squared = &state->squared;
  return core_.health().Check(LaunchBatchEncode(batch, workspace.stream.get()), "encoding queries");
}

absl::StatusOr<uint64_t> SingleSearch::KeyAt(const SearchJob& job, uint32_t place) {
  SearchWorkspace& workspace = core_.workspace();
  auto* const keys = reinterpret_cast<uint64_t*>(workspace.results.host());
  if (!job.MergesOnDevice(1)) return keys[place];
  cudaStream_t stream = workspace.stream.get();
  ABSL_RETURN_IF_ERROR(
      core_.health().Check(cudaMemcpyAsync(keys, workspace.device_results + place, sizeof(*keys),
                                           cudaMemcpyDeviceToHost, stream),
                           "cudaMemcpyAsync"));
  ABSL_RETURN_IF_ERROR(
      core_.health().Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  return *keys;
}

absl::Status SingleSearch::GiveAnswer(const SearchJob& job, int64_t query, uint32_t keys_count,
                                      SearchOutput& out) {
  if (job.MergesOnDevice(1)) {
    KeyLists lists = MixedLists(job);
    lists.count = keys_count;
    lists.count_max = keys_count;
    return EnqueueGather(core_, job, {query}, nullptr, lists);
  }
  const auto* const keys = reinterpret_cast<const uint64_t*>(core_.workspace().results.host());
  TakeKeys(job, query, {keys, keys_count}, out.best);
  return absl::OkStatus();
}

const bound::Rotation& SingleSearch::Rotation(const backend::RowFormat& format) {
  if (rotation_ == nullptr || rotation_->dimension() != format.dim ||
      rotation_seed_ != format.seed) {
    rotation_ = std::make_unique<bound::Rotation>(format.dim, format.seed);
    rotation_seed_ = format.seed;
  }
  return *rotation_;
}

// Blocks until this launch has written its outcome. The kernel writes it last, so it is visible
// before the kernel has ended. Checks regularly that the device still works.
absl::Status SingleSearch::AwaitOutcome(uint32_t launch) {
  constexpr int kLooksBetweenQueries = 4096;
  const SearchWorkspace& workspace = core_.workspace();
  const auto* const outcome =
      reinterpret_cast<const OneQueryOutcome*>(workspace.code_outcome.host());
  const auto there = [&] { return __atomic_load_n(&outcome->launch, __ATOMIC_ACQUIRE) == launch; };
  for (;;) {
    for (int look = 0; look < kLooksBetweenQueries; ++look) {
      if (there()) return absl::OkStatus();
    }
    const cudaError_t error = cudaStreamQuery(workspace.stream.get());
    if (error == cudaErrorNotReady) continue;
    ABSL_RETURN_IF_ERROR(core_.health().Check(error, "cudaStreamQuery"));
    if (there()) return absl::OkStatus();
    return absl::InternalError("a certified scan ended without an outcome");
  }
}

absl::StatusOr<OneQueryOutcome> SingleSearch::Run(const SearchJob& job, OneQueryArgs& args) {
  SearchWorkspace& workspace = core_.workspace();
  args.launch = ++launches_;
  ABSL_RETURN_IF_ERROR(
      core_.health().Check(LaunchOneQuery(job.format.row_type, core_.device_properties().sm_count,
                                          args, workspace.stream.get()),
                           "launching a certified scan"));
  ABSL_RETURN_IF_ERROR(AwaitOutcome(args.launch));
  return *reinterpret_cast<const OneQueryOutcome*>(workspace.code_outcome.host());
}

absl::StatusOr<bool> SingleSearch::SearchOne(const SearchJob& job, int64_t query,
                                             OneQueryArgs& args, SearchOutput& out) {
  const int32_t dim = job.format.dim;
  args.k = static_cast<uint32_t>(job.queries->k[static_cast<std::size_t>(query)]);
  args.samples_per_block =
      SamplesPerBlock(static_cast<int32_t>(args.k), core_.device_properties().sm_count);
  // Ranks of different generations do not compare, so all ties of the k-th best are needed then.
  args.keys_max = args.corpus.count == 1 ? args.k : kCandidatesMax;
  args.threshold = 0;
  if (job.device != nullptr) {
    ABSL_RETURN_IF_ERROR(StageOnDevice(job, query, args));
  } else {
    const float* const vector = job.queries->queries + query * dim;
    if (job.format.metric == Metric::kCosine) args.query_squared = score::SquaredNorm(vector, dim);
    ABSL_RETURN_IF_ERROR(StageCodes(job, vector, args));
  }
  ABSL_RETURN_IF_ERROR(EnqueueSums(job, query, args));
  ABSL_ASSIGN_OR_RETURN(OneQueryOutcome outcome, Run(job, args));
  if (job.device != nullptr) {
    ABSL_RETURN_IF_ERROR(CheckFaults(core_, job, {.first = query, .count = 1}));
  }
  const auto row_bytes = job.planes.front()->view().row_bytes;
  for (int32_t g = 0; g < args.corpus.count; ++g) {
    const CodesView& codes = args.corpus.generations[g].codes;
    out.cost.bytes_read += int64_t{args.corpus.generations[g].rows_count} *
                           (codes.code_bytes + static_cast<int64_t>(sizeof(bound::RowBound)));
  }
  out.cost.candidates += outcome.rescored;
  out.cost.bytes_read += outcome.rescored * row_bytes;
  if (outcome.overflow != 0 && outcome.reached >= args.k) {
    // The k-th best of the scored rows is a score that k rows are known to reach.
    ABSL_ASSIGN_OR_RETURN(const uint64_t kth, KeyAt(job, args.k - 1));
    const auto tighter = static_cast<uint32_t>(kth >> 32);
    if (tighter > outcome.threshold) {
      args.threshold = tighter;
      ++out.cost.escalations.tighter;
      ABSL_ASSIGN_OR_RETURN(outcome, Run(job, args));
      out.cost.candidates += outcome.rescored;
      out.cost.bytes_read += outcome.rescored * row_bytes;
    }
  }
  if (outcome.overflow != 0) return false;
  CHECK_LE(outcome.reached, kCandidatesMax);
  ++out.cost.queries_of_codes;
  ABSL_RETURN_IF_ERROR(GiveAnswer(job, query, std::min(outcome.reached, args.keys_max), out));
  return true;
}

absl::Status SingleSearch::Search(const SearchJob& job, absl::Span<const int64_t> queries,
                                  SearchOutput& out, std::vector<int64_t>& left) {
  OneQueryArgs args = SharedArgs(job);
  std::vector<int64_t> merged;  // on the device, for the host
  for (const int64_t query : queries) {
    ABSL_RETURN_IF_ERROR(job.CheckCancelled());
    ABSL_ASSIGN_OR_RETURN(const bool answered, SearchOne(job, query, args, out));
    if (answered) {
      if (job.device == nullptr && job.MergesOnDevice(1)) merged.push_back(query);
      continue;
    }
    ++out.cost.escalations.canonical;
    left.push_back(query);
  }
  if (merged.empty()) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(core_.health().Check(cudaStreamSynchronize(core_.workspace().stream.get()),
                                            "cudaStreamSynchronize"));
  for (const int64_t query : merged) GiveFinished(job, query, out.best);
  return absl::OkStatus();
}

}  // namespace nearfield::gpu

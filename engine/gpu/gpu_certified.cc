// The certified scan of codes, host side (engine/DESIGN.md, "Certified bound"). A query takes one
// launch. If it has too many candidates for the available room, the scan is repeated with a tighter
// threshold; if there are still too many, the exact rows are scanned.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/gpu_topk_engine.h"
#include "engine/plan/scan_choice.h"
#include "engine/score/order.h"
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

// Returns the number of row numbers that the scanned generations take.
int64_t RowNumbers(const std::vector<int64_t>& rows) {
  int64_t numbers = 0;
  for (const int64_t count : rows) numbers += RoundUp(count, kRowNumberAlign);
  return numbers;
}

}  // namespace

bool GpuTopkEngine::ScansCodes(const Job& job) const {
  // The bounds use the memory of the row scan's keys: two bounds fit in the place of one key.
  const int64_t numbers = RowNumbers(job.rows);
  if (job.format.scan == ScanPrecision::kRows || numbers == 0 ||
      numbers > std::min<int64_t>(2 * core_->engine_facts().keys_max, kRowsMax)) {
    return false;
  }
  if (!job.format.may_scan_rows) return true;
  return plan::PrefersCodes(WorkOf(job, static_cast<int64_t>(job.queries->k.size())));
}

plan::ScanWork GpuTopkEngine::WorkOf(const Job& job, int64_t queries) const {
  const GpuRowPlanes& planes = *job.planes.front();
  const CodesView& codes = planes.codes();
  return {.rows = RowNumbers(job.rows),
          .row_bytes = planes.view().row_bytes,
          .code_bytes = codes.code_bytes + static_cast<int64_t>(sizeof(score::RowBound)),
          .queries = queries,
          .queries_of_pass = BatchQueriesAtOnce(kBatchQueriesMax, codes.code_bytes)};
}

CodedCorpus GpuTopkEngine::CorpusOf(const Job& job) const {
  CodedCorpus corpus;
  for (std::size_t generation = 0; generation < job.rows.size(); ++generation) {
    if (job.rows[generation] == 0) continue;
    corpus.generations[corpus.count++] = {
        .rows = job.planes[generation]->view(),
        .codes = job.planes[generation]->codes(),
        .tombstones = job.tombstones[generation],
        .rows_begin = corpus.numbers,
        .rows_count = static_cast<uint32_t>(job.rows[generation])};
    corpus.numbers += static_cast<uint32_t>(RoundUp(job.rows[generation], kRowNumberAlign));
  }
  return corpus;
}

OneQueryArgs GpuTopkEngine::CodeArgs(const CodedCorpus& corpus, const Job& job) const {
  SearchWorkspace& workspace = core_->workspace();
  OneQueryArgs args;
  args.corpus = corpus;
  args.dim = job.format.dim;
  args.metric = ScanMetricOf(job.format.metric);
  args.uppers = reinterpret_cast<float*>(workspace.keys);
  args.samples = workspace.samples;
  args.candidates = workspace.code_candidates;
  args.state = workspace.code_state;
  args.keys = reinterpret_cast<uint64_t*>(workspace.results.device());
  args.outcome = reinterpret_cast<OneQueryOutcome*>(workspace.code_outcome.device());
  return args;
}

absl::Status GpuTopkEngine::StageCodes(const Job& job, const float* vector, OneQueryArgs& args) {
  SearchWorkspace& workspace = core_->workspace();
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
  return core_->health().Check(
      cudaMemcpyAsync(workspace.queries, bytes, static_cast<std::size_t>(query_bytes),
                      cudaMemcpyHostToDevice, workspace.stream.get()),
      "cudaMemcpyAsync");
}

const corpus::Rotation& GpuTopkEngine::Rotation(const corpus::RowFormat& format) {
  if (rotation_ == nullptr || rotation_->dimension() != format.dim ||
      rotation_seed_ != format.seed) {
    rotation_ = std::make_unique<corpus::Rotation>(format.dim, format.seed);
    rotation_seed_ = format.seed;
  }
  return *rotation_;
}

// Blocks until launch `number` has written its outcome. The kernel writes it last, so it is visible
// before the kernel has ended. Checks regularly that the device still works.
absl::Status GpuTopkEngine::AwaitOutcome(uint32_t number) {
  constexpr int kLooksBetweenQueries = 4096;
  const SearchWorkspace& workspace = core_->workspace();
  const auto* const outcome =
      reinterpret_cast<const OneQueryOutcome*>(workspace.code_outcome.host());
  const auto there = [&] { return __atomic_load_n(&outcome->launch, __ATOMIC_ACQUIRE) == number; };
  for (;;) {
    for (int look = 0; look < kLooksBetweenQueries; ++look) {
      if (there()) return absl::OkStatus();
    }
    const cudaError_t error = cudaStreamQuery(workspace.stream.get());
    if (error == cudaErrorNotReady) continue;
    ABSL_RETURN_IF_ERROR(core_->health().Check(error, "cudaStreamQuery"));
    if (there()) return absl::OkStatus();
    return absl::InternalError("a certified scan ended without an outcome");
  }
}

absl::StatusOr<OneQueryOutcome> GpuTopkEngine::RunOneQuery(const Job& job, OneQueryArgs& args) {
  SearchWorkspace& workspace = core_->workspace();
  args.launch = ++launches_;
  ABSL_RETURN_IF_ERROR(core_->health().Check(
      LaunchOneQuery(ScanRowOf(job.format.row_type), core_->device_facts().sm_count, args,
                     workspace.stream.get()),
      "launching a certified scan"));
  ABSL_RETURN_IF_ERROR(AwaitOutcome(args.launch));
  return *reinterpret_cast<const OneQueryOutcome*>(workspace.code_outcome.host());
}

absl::StatusOr<bool> GpuTopkEngine::SearchOneQuery(const Job& job, int64_t query,
                                                   OneQueryArgs& args, corpus::RankedLists& best,
                                                   corpus::ScanCost& cost) {
  SearchWorkspace& workspace = core_->workspace();
  const int32_t dim = job.format.dim;
  const float* const vector = job.queries->queries + query * dim;
  args.k = static_cast<uint32_t>(job.queries->k[static_cast<std::size_t>(query)]);
  args.samples_per_block =
      SamplesPerBlock(static_cast<int32_t>(args.k), core_->device_facts().sm_count);
  // Ranks of different generations do not compare, so all ties of the k-th best are needed then.
  args.keys_max = args.corpus.count == 1 ? args.k : kCandidatesMax;
  args.threshold = 0;
  if (job.format.metric == Metric::kCosine) args.query_squared = score::SquaredNorm(vector, dim);
  ABSL_RETURN_IF_ERROR(StageCodes(job, vector, args));
  ABSL_ASSIGN_OR_RETURN(OneQueryOutcome outcome, RunOneQuery(job, args));
  const auto* const keys = reinterpret_cast<const uint64_t*>(workspace.results.host());
  const auto row_bytes = job.planes.front()->view().row_bytes;
  for (int32_t g = 0; g < args.corpus.count; ++g) {
    const CodesView& codes = args.corpus.generations[g].codes;
    cost.bytes_read += int64_t{args.corpus.generations[g].rows_count} *
                       (codes.code_bytes + static_cast<int64_t>(sizeof(score::RowBound)));
  }
  cost.candidates += outcome.rescored;
  cost.bytes_read += outcome.rescored * row_bytes;
  if (outcome.overflow != 0 && outcome.reached >= args.k) {
    // The k-th best of the scored rows is a score that k rows are known to reach.
    const auto tighter = static_cast<uint32_t>(keys[args.k - 1] >> 32);
    if (tighter > outcome.threshold) {
      args.threshold = tighter;
      ++cost.escalations.tighter;
      ABSL_ASSIGN_OR_RETURN(outcome, RunOneQuery(job, args));
      cost.candidates += outcome.rescored;
      cost.bytes_read += outcome.rescored * row_bytes;
    }
  }
  if (outcome.overflow != 0) return false;
  ++cost.queries_of_codes;
  TakeKeys(job, args.corpus, query, {keys, std::min(outcome.reached, args.keys_max)}, best);
  return true;
}

void GpuTopkEngine::TakeKeys(const Job& job, const CodedCorpus& corpus, int64_t query,
                             absl::Span<const uint64_t> keys, corpus::RankedLists& best) const {
  const auto place = static_cast<std::size_t>(query);
  const auto k = static_cast<std::size_t>(job.queries->k[place]);
  if (corpus.count == 1) {  // the numbers of its rows are their ranks
    best.Assign(place, static_cast<std::size_t>(job.scanned.front()), keys.subspan(0, k));
    return;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float score = score::KeyScore(keys[i]);
    if (i >= k && score < score::KeyScore(keys[k - 1])) break;
    const uint32_t number = score::KeyRank(keys[i]);
    const int index = corpus.IndexOf(number);
    const uint32_t rank = number - corpus.generations[index].rows_begin;
    const auto generation = static_cast<std::size_t>(job.scanned[static_cast<std::size_t>(index)]);
    if (best.list(place, generation).size() >= k) continue;
    best.Append(place, generation, {.score = score, .rank = rank});
  }
}

absl::Status GpuTopkEngine::SearchCodes(const Job& job, corpus::RankedLists& best,
                                        corpus::ScanCost& cost) {
  const auto& cancelled = job.queries->cancelled;
  const auto queries = static_cast<int64_t>(job.queries->k.size());
  const CodedCorpus corpus = CorpusOf(job);
  std::vector<int64_t> left;
  for (int64_t first = 0; first < queries;) {
    if (cancelled && cancelled()) return absl::CancelledError("the search was cancelled");
    const BatchShape shape = ShapeBatch(job, corpus, first);
    if (shape.queries == 0 || !plan::PrefersBatch(WorkOf(job, shape.queries))) {
      left.push_back(first++);
      continue;
    }
    const std::size_t left_before = left.size();
    ABSL_RETURN_IF_ERROR(SearchBatch(job, corpus, first, shape, best, cost, left));
    cost.escalations.tighter += static_cast<int64_t>(left.size() - left_before);
    first += shape.queries;
  }
  if (left.empty()) return absl::OkStatus();
  OneQueryArgs args = CodeArgs(corpus, job);
  for (const int64_t query : left) {
    if (cancelled && cancelled()) return absl::CancelledError("the search was cancelled");
    ABSL_ASSIGN_OR_RETURN(const bool answered, SearchOneQuery(job, query, args, best, cost));
    if (answered) continue;
    ++cost.escalations.canonical;
    ABSL_RETURN_IF_ERROR(SearchRows(job, query, 1, best, cost));
  }
  return absl::OkStatus();
}

}  // namespace nearfield::gpu

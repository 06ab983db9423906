// Runs one tile of a plan at a time: copies queries up, enqueues scans and selections, waits once,
// and reads the results from pinned memory.
#include "engine/gpu/row_search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/device_io.h"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/score/squared_norm.h"
#include "engine/topk/select.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kBlockAlign = 256;

// Returns the result list of each generation: its index among the scanned generations, or -1.
std::vector<int32_t> ResultSlots(const std::vector<int64_t>& rows) {
  std::vector<int32_t> slots(rows.size(), -1);
  int32_t next = 0;
  for (std::size_t generation = 0; generation < rows.size(); ++generation) {
    if (rows[generation] > 0) slots[generation] = next++;
  }
  return slots;
}

// The parts of LaidQueries in the memory of a batch, which a scan of rows does not use.
constexpr int64_t kLaidBytes =
    RoundUp(8 * (kQueryElementsMax + int64_t{kScanTileQueries} * kDimMax), kBlockAlign);
constexpr int64_t kMagnitudesBytes = RoundUp(8 * kTileQueriesMax, kBlockAlign);
static_assert(kLaidBytes + kMagnitudesBytes + int64_t{sizeof(ScanLeft)} <=
              kBatchesMax * kBatchBytes);

LaidQueries LaidIn(const SearchWorkspace& workspace) {
  char* const at = workspace.batch;
  return {.queries = reinterpret_cast<double2*>(at),
          .magnitudes = reinterpret_cast<double*>(at + kLaidBytes),
          .left = reinterpret_cast<ScanLeft*>(at + kLaidBytes + kMagnitudesBytes),
          .overflow = reinterpret_cast<uint32_t*>(workspace.scan_overflow.device())};
}

// Returns true if the scan of tiles left keys out, and forgets it.
bool TakeOverflow(const SearchWorkspace& workspace) {
  auto* const overflow = reinterpret_cast<uint32_t*>(workspace.scan_overflow.host());
  return __atomic_exchange_n(overflow, 0u, __ATOMIC_ACQUIRE) != 0;
}

}  // namespace

absl::StatusOr<RowSearch::QueryBlock> RowSearch::StageQueries(const SearchJob& job,
                                                              QuerySpan queries) {
  SearchWorkspace& workspace = core_.workspace();
  const int64_t dim = job.format.dim;
  const auto count = static_cast<int64_t>(queries.size());
  QueryBlock block;
  block.k_at = RoundUp(8 * count, kBlockAlign);
  block.places_at = RoundUp(block.k_at + 4 * count, kBlockAlign);
  const bool merges = job.MergesOnDevice(count);
  const int64_t places_bytes = merges ? count * int64_t{sizeof(AnswerPlace)} : 0;
  block.queries_at = RoundUp(block.places_at + places_bytes, kBlockAlign);
  char* const host = workspace.queries_host.host();
  const auto copy_to = [host](int64_t at, const void* from, int64_t bytes) {
    std::memcpy(host + at, from, static_cast<std::size_t>(bytes));
  };
  for (int64_t i = 0; i < count; ++i) {
    copy_to(block.k_at + 4 * i, &job.queries->k[static_cast<std::size_t>(queries[i])], 4);
  }
  if (merges) CopyPlaces(job, queries, reinterpret_cast<AnswerPlace*>(host + block.places_at));
  const int64_t bytes = 4 * dim * count;  // of the vectors
  const bool on_device = job.device != nullptr;
  const bool in_memory = job.InQueryMemory(queries);
  const bool needs_squares = !on_device && job.format.metric == Metric::kCosine;
  auto* const vectors = reinterpret_cast<float*>(workspace.queries + block.queries_at);
  block.vectors = vectors;
  if (on_device) {
    ABSL_RETURN_IF_ERROR(EnqueueWiden(core_, job, RangeOf(queries), vectors,
                                      reinterpret_cast<double*>(workspace.queries)));
  } else if (in_memory) {
    const float* const values = job.queries->queries + queries.front() * dim;
    ABSL_ASSIGN_OR_RETURN(const float* const sent,
                          core_.query_memory().Sent(values, workspace.stream.get()));
    if (sent != nullptr) {
      block.vectors = sent;
    } else {
      ABSL_RETURN_IF_ERROR(
          core_.health().Check(cudaMemcpyAsync(vectors, values, static_cast<std::size_t>(bytes),
                                               cudaMemcpyHostToDevice, workspace.stream.get()),
                               "cudaMemcpyAsync"));
    }
  }
  const bool copies = !on_device && !in_memory;
  if (copies || needs_squares) {
    ABSL_RETURN_IF_ERROR(job.ForEachOnHost(count, bytes, [&](int64_t i) {
      const float* const query = job.queries->queries + queries[i] * dim;
      if (copies) copy_to(block.queries_at + 4 * dim * i, query, 4 * dim);
      if (!needs_squares) return absl::OkStatus();
      const double squared = score::SquaredNorm(query, job.format.dim);
      copy_to(8 * i, &squared, sizeof(squared));
      return absl::OkStatus();
    }));
  }
  const int64_t copied_from = needs_squares ? 0 : block.k_at;
  const int64_t copied_to = block.queries_at + (copies ? bytes : 0);
  ABSL_RETURN_IF_ERROR(
      core_.health().Check(cudaMemcpyAsync(workspace.queries + copied_from, host + copied_from,
                                           static_cast<std::size_t>(copied_to - copied_from),
                                           cudaMemcpyHostToDevice, workspace.stream.get()),
                           "cudaMemcpyAsync"));
  return block;
}

absl::Status RowSearch::EnqueueScan(const SearchJob& job, const plan::SearchPlan& plan,
                                    const plan::PlanPiece& piece, const QueryBlock& block) {
  SearchWorkspace& workspace = core_.workspace();
  const auto generation = static_cast<std::size_t>(piece.generation);
  ScanArgs args = {.rows = job.planes[generation]->view(),
                   .tombstones = job.tombstones[generation],
                   .listed = job.listed ? job.live_slots[generation] : SlotList{},
                   .metric = job.format.metric,
                   .row_begin = static_cast<uint32_t>(piece.row_begin),
                   .row_end = static_cast<uint32_t>(piece.row_end),
                   .queries_count = plan.queries,
                   .queries = block.vectors,
                   .laid = LaidIn(workspace),
                   .query_squared = reinterpret_cast<const double*>(workspace.queries),
                   .keys = workspace.keys + piece.key_begin,
                   .keys_pitch = plan.keys_pitch};
  const ScanLaunch launch = {.row = job.format.row_type,
                             .queries_per_scan = plan.queries_per_scan,
                             .blocks_x = piece.scan_blocks,
                             .blocks_y = plan.scan_subtiles};
  return core_.health().Check(LaunchScan(launch, args, workspace.stream.get()), "launching a scan");
}

absl::Status RowSearch::EnqueueFinalKeys(const SearchJob& job, const plan::SearchPlan& plan,
                                         const plan::PlanPiece& piece, QuerySpan queries) {
  SearchWorkspace& workspace = core_.workspace();
  const auto generation = static_cast<std::size_t>(piece.generation);
  for (int64_t i = 0; i < plan.queries && !job.terms.empty(); ++i) {
    const DeviceTerms* const terms = job.TermsOf(queries[static_cast<std::size_t>(i)]);
    if (terms == nullptr) continue;
    const FinalKeysArgs args = {.list = terms->list,
                                .columns = terms->columns[generation],
                                .listed = job.listed ? job.live_slots[generation] : SlotList{},
                                .row_begin = static_cast<uint32_t>(piece.row_begin),
                                .row_end = static_cast<uint32_t>(piece.row_end),
                                .keys = workspace.keys + piece.key_begin + i * plan.keys_pitch};
    ABSL_RETURN_IF_ERROR(core_.health().Check(LaunchFinalKeys(args, workspace.stream.get()),
                                              "launching the final scores of a scan"));
  }
  return absl::OkStatus();
}

absl::Status RowSearch::EnqueueSelect(const SearchJob& job, const plan::SearchPlan& plan,
                                      const plan::PlanStep& step, const QueryBlock& block) {
  SearchWorkspace& workspace = core_.workspace();
  const std::vector<int32_t> slots = ResultSlots(job.rows);
  const bool merges = job.MergesOnDevice(plan.queries);
  SelectArgs args;
  args.keys = workspace.keys;
  args.keys_pitch = plan.keys_pitch;
  args.queries_count = plan.queries;
  args.k = reinterpret_cast<const int32_t*>(workspace.queries + block.k_at);
  args.pieces_count = static_cast<int32_t>(step.pieces.size());
  for (std::size_t i = 0; i < step.pieces.size(); ++i) {
    const plan::PlanPiece& piece = step.pieces[i];
    const int64_t begin = piece.takes_carry ? 0 : piece.key_begin;
    args.pieces[i] = {
        .key_begin = begin,
        .keys_count = piece.key_begin - begin + piece.row_end - piece.row_begin,
        .result_slot = piece.gives_carry ? -1 : slots[static_cast<std::size_t>(piece.generation)]};
  }
  args.blocks_per_group = step.select_blocks_per_group;
  args.groups = workspace.groups;
  args.candidates = workspace.candidates;
  args.results =
      merges ? workspace.device_results : reinterpret_cast<uint64_t*>(workspace.results.device());
  args.results_pitch = static_cast<int32_t>(plan.results_pitch);
  args.counts =
      reinterpret_cast<SelectCount*>(merges ? workspace.device_counts : workspace.counts.device());
  args.carry_keys = static_cast<int32_t>(plan.carry_keys);
  return core_.health().Check(
      LaunchSelect(core_.select_shape(), step.select_groups, args, workspace.stream.get()),
      "launching a selection");
}

// Enqueues the merge of the lists into the answers on the device, and the copy of their counts.
absl::Status RowSearch::EnqueueAnswers(const SearchJob& job, const plan::SearchPlan& plan,
                                       QuerySpan queries, const QueryBlock& block) {
  static_assert(sizeof(SelectCount) == 2 * sizeof(uint32_t));
  SearchWorkspace& workspace = core_.workspace();
  const auto* const counts = reinterpret_cast<const SelectCount*>(workspace.device_counts);
  KeyLists lists = ListsByGeneration(job);
  lists.pitch = plan.results_pitch;
  lists.counts = &counts->kept;
  lists.counts_stride = 2;
  lists.count_max = static_cast<uint32_t>(plan.results_pitch);
  const auto* const places =
      reinterpret_cast<const AnswerPlace*>(workspace.queries + block.places_at);
  ABSL_RETURN_IF_ERROR(EnqueueGather(core_, job, queries, places, lists));
  const int64_t lists_count = int64_t{lists.lists} * plan.queries;
  return core_.health().Check(
      cudaMemcpyAsync(workspace.counts.host(), counts,
                      static_cast<std::size_t>(lists_count) * sizeof(SelectCount),
                      cudaMemcpyDeviceToHost, workspace.stream.get()),
      "cudaMemcpyAsync");
}

absl::Status RowSearch::RunTile(const SearchJob& job, const plan::SearchPlan& plan,
                                QuerySpan queries, SearchOutput& out) {
  const bool merges = job.MergesOnDevice(plan.queries);
  if (plan.steps.empty() && !merges) return absl::OkStatus();
  SearchWorkspace& workspace = core_.workspace();
  ABSL_ASSIGN_OR_RETURN(const QueryBlock block, StageQueries(job, queries));
  if (plan.queries_per_scan == kScanTileQueries) {
    ABSL_RETURN_IF_ERROR(core_.health().Check(LaunchLayQueries({.shape = job.shape,
                                                                .metric = job.format.metric,
                                                                .queries = block.vectors,
                                                                .count = plan.queries,
                                                                .to = LaidIn(workspace)},
                                                               workspace.stream.get()),
                                              "converting queries"));
  }
  for (const plan::PlanStep& step : plan.steps) {
    for (const plan::PlanPiece& piece : step.pieces) {
      ABSL_RETURN_IF_ERROR(EnqueueScan(job, plan, piece, block));
      ABSL_RETURN_IF_ERROR(EnqueueFinalKeys(job, plan, piece, queries));
    }
    ABSL_RETURN_IF_ERROR(EnqueueSelect(job, plan, step, block));
  }
  if (merges) ABSL_RETURN_IF_ERROR(EnqueueAnswers(job, plan, queries, block));
  PlaceFinished(job, queries, out.best);
  ABSL_RETURN_IF_ERROR(
      core_.health().Check(cudaStreamSynchronize(workspace.stream.get()), "cudaStreamSynchronize"));
  if (job.device == nullptr) return absl::OkStatus();
  return CheckFaults(core_, job, RangeOf(queries));
}

void RowSearch::TakeResults(const SearchJob& job, const plan::SearchPlan& plan, QuerySpan queries,
                            SearchOutput& out) const {
  const SearchWorkspace& workspace = core_.workspace();
  const auto* const keys = reinterpret_cast<const uint64_t*>(workspace.results.host());
  const auto* const counts = reinterpret_cast<const SelectCount*>(workspace.counts.host());
  const std::vector<int32_t> slots = ResultSlots(job.rows);
  const bool merges = job.MergesOnDevice(plan.queries);
  for (int32_t query = 0; merges && job.device == nullptr && query < plan.queries; ++query) {
    GiveFinished(job, queries[query], out.best);
  }
  for (std::size_t generation = 0; generation < job.rows.size(); ++generation) {
    if (slots[generation] < 0) continue;
    out.cost.bytes_read +=
        job.rows[generation] * job.planes[generation]->view().row_bytes * plan.scan_subtiles;
    for (int32_t query = 0; query < plan.queries; ++query) {
      const int64_t list = int64_t{slots[generation]} * plan.queries + query;
      const uint64_t* const list_keys = keys + list * plan.results_pitch;
      CHECK_LE(int64_t{counts[list].kept}, plan.results_pitch);
      out.cost.candidates += counts[list].candidates;
      if (merges) continue;
      out.best.Assign(static_cast<std::size_t>(queries[query]), generation,
                      {list_keys, counts[list].kept});
    }
  }
}

plan::SearchPlan RowSearch::PlanTile(const SearchJob& job, QuerySpan queries,
                                     plan::UseTiles tiles) const {
  const plan::SearchShape shape = {.dim_padded = job.shape.padded,
                                   .queries = static_cast<int32_t>(queries.size()),
                                   .k = LargestK(job, queries),
                                   .tiles = tiles,
                                   .rows = job.rows};
  return plan::PlanSearch(shape, core_.device_properties(), core_.engine_limits());
}

absl::Status RowSearch::Search(const SearchJob& job, QuerySpan queries, SearchOutput& out) {
  plan::UseTiles tiles = tiles_;
  while (!queries.empty()) {
    ABSL_RETURN_IF_ERROR(job.CheckCancelled());
    const auto together = static_cast<std::size_t>(TakenTogether(job, queries));
    const plan::SearchPlan plan = PlanTile(job, queries.first(together), tiles);
    const QuerySpan tile = queries.first(static_cast<std::size_t>(plan.queries));
    ABSL_RETURN_IF_ERROR(RunTile(job, plan, tile, out));
    if (TakeOverflow(core_.workspace())) {
      // Many sums are close to where a score is rounded, for example exactly 0.
      tiles = plan::UseTiles::kNever;
      continue;
    }
    TakeResults(job, plan, tile, out);
    queries.remove_prefix(tile.size());
  }
  return absl::OkStatus();
}

}  // namespace nearfield::gpu

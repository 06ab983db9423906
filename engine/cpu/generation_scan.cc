#include "engine/cpu/generation_scan.h"

#include <algorithm>
#include <cmath>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/list_merge.h"
#include "engine/score/arithmetic_mode.h"
#include "engine/score/order.h"
#include "engine/score/score.h"

namespace nearfield::cpu {
namespace {

// One query: bytes of rows per tile. About 10 us of work: the shared counter and the wait for the
// slowest thread stay below one or two percent of a scan that is worth several threads.
constexpr int64_t kTileBytes = 128 << 10;
constexpr int32_t kTileRowsMax = 1024;
// Several queries: bytes per tile of rows widened to fp64. Long enough to fetch the next tile
// meanwhile, short enough that two tiles fit in the L2 cache next to the queries.
constexpr int64_t kGroupTileBytes = 192 << 10;
constexpr int32_t kGroupTileRowsMax = 64;
// Upper limits of a thread's speed, with rows in its cache. They only decide how many threads are
// worth waking.
constexpr int64_t kRowBytesPerUs = 30'000;
constexpr int64_t kMultiplyAddsPerUs = 35'000;
// Work that justifies waking one more thread. (1000 x 384 fp32, one query: 27 us on one thread,
// 16 us on two that still spin; a sleeping thread takes about 5 to 50 us to start.)
constexpr int64_t kThreadUs = 20;
// Minimum number of tiles per thread, so that threads of different speed finish together.
constexpr int64_t kTilesPerThread = 4;

int64_t ThreadsWorthwhile(int64_t work_us, int32_t threads_count) {
  return std::clamp<int64_t>(work_us / kThreadUs, 1, threads_count);
}

}  // namespace

void ListAbsentRows(const QueryGroup& group, const backend::GenerationView& view,
                    std::vector<backend::AbsentRows>* absent) {
  absent->assign(group.k.size(), backend::AbsentRows(view));
  for (size_t q = 0; q < group.views.size(); ++q) {
    (*absent)[q] = backend::AbsentRows(group.views[q][group.generation]);
  }
}

GenerationScan::GenerationScan(const Context& context, const QueryGroup& group,
                               const backend::GenerationView& view)
    : context_(context),
      group_(group),
      planes_(static_cast<const CpuRowPlanes&>(*view.planes)),  // same backend, by contract
      view_(view),
      queries_count_(static_cast<int32_t>(group.k.size())),
      kind_(group.format.metric == Metric::kL2 ? SumKind::kSquaredDistance : SumKind::kProduct) {}

void GenerationScan::PlanTiles() {
  const int64_t rows = planes_.rows_count();
  const int32_t dim_padded = PaddedDim(group_.format.dim);
  const int64_t scan_us = rows * planes_.stride_bytes() / kRowBytesPerUs;
  const int64_t multiply_us = rows * queries_count_ * dim_padded / kMultiplyAddsPerUs;
  participants_ = static_cast<int32_t>(
      ThreadsWorthwhile(std::max(scan_us, multiply_us), context_.pool->threads_count()));

  const int64_t rows_fitting =
      queries_count_ == 1
          ? std::min<int64_t>(kTileBytes / planes_.stride_bytes(), kTileRowsMax)
          : std::min<int64_t>(kGroupTileBytes / (dim_padded * int64_t{sizeof(double)}),
                              kGroupTileRowsMax);
  const int64_t rows_even = CeilDiv(rows, participants_ * kTilesPerThread);
  const int64_t wanted = participants_ == 1 ? rows_fitting : std::min(rows_fitting, rows_even);
  rows_a_tile_ = static_cast<int32_t>(RoundUp(std::max<int64_t>(wanted, 1), kRowGroup));
  tiles_count_ = CeilDiv(rows, rows_a_tile_);
}

void GenerationScan::PrepareWorkspace() {
  Workspace& workspace = *context_.workspace;
  const auto queries = static_cast<size_t>(queries_count_);
  PrepareLists(workspace, group_.k, planes_.rows_count(), participants_);
  ListAbsentRows(group_, view_, &workspace.absent);
  if (workspace.thresholds_count < queries_count_) {
    workspace.thresholds = std::make_unique<std::atomic<uint64_t>[]>(queries);
    workspace.thresholds_count = queries_count_;
  }
  for (size_t q = 0; q < queries; ++q) {
    workspace.thresholds[q].store(score::kNoKey, std::memory_order_relaxed);
  }
  const int64_t scratch =
      queries_count_ == 1 ? 0 : context_.kernels->scratch_doubles(PaddedDim(group_.format.dim));
  for (int32_t worker = 0; worker < participants_; ++worker) {
    ThreadWorkspace& space = workspace.threads[static_cast<size_t>(worker)];
    space.kernel_scratch.Ensure(scratch);
    space.sums.Ensure(int64_t{queries_count_} * rows_a_tile_);
    space.row_roots.Ensure(rows_a_tile_);
    space.surviving.Ensure(rows_a_tile_);
  }
}

int32_t GenerationScan::RowsInTile(int64_t tile) const {
  return static_cast<int32_t>(
      std::min<int64_t>(rows_a_tile_, planes_.rows_count() - tile * rows_a_tile_));
}

void GenerationScan::ScanTiles(int32_t worker) {
  if (!error_.Check(score::CheckArithmeticMode())) return;
  ThreadWorkspace& space = context_.workspace->threads[static_cast<size_t>(worker)];
  // Claim one tile ahead, so that its memory can be fetched while this one is computed.
  int64_t tile = next_tile_.fetch_add(1, std::memory_order_relaxed);
  while (tile < tiles_count_) {
    if (worker == 0 && group_.Cancelled()) cancelled_.store(true, std::memory_order_relaxed);
    if (cancelled_.load(std::memory_order_relaxed)) return;
    const int64_t following = next_tile_.fetch_add(1, std::memory_order_relaxed);
    ScanTile(tile, following, space);
    tile = following;
  }
}

void GenerationScan::ScanTile(int64_t tile, int64_t next_tile, ThreadWorkspace& space) {
  const int64_t begin = tile * rows_a_tile_;
  const int32_t rows_count = RowsInTile(tile);
  double* const sums = space.sums.get();
  if (queries_count_ == 1) {
    context_.kernels->scan_one(planes_.tile(begin, rows_count), kind_,
                               context_.workspace->queries.get(), sums);
  } else {
    GroupScan scan;
    scan.tile = planes_.tile(begin, rows_count);
    scan.kind = kind_;
    scan.queries = context_.workspace->queries.get();
    scan.queries_count = queries_count_;
    scan.scratch = space.kernel_scratch.get();
    scan.sums = sums;
    scan.sums_stride = rows_a_tile_;
    if (next_tile < tiles_count_) {
      const int32_t next_rows = RowsInTile(next_tile);
      scan.upcoming.data = planes_.tile(next_tile * rows_a_tile_, next_rows).rows;
      scan.upcoming.bytes = next_rows * planes_.stride_bytes();
    }
    context_.kernels->scan_group(scan);
  }
  if (group_.format.metric == Metric::kCosine) {
    double* const roots = space.row_roots.get();
    for (int32_t r = 0; r < rows_count; ++r) roots[r] = std::sqrt(planes_.squares()[begin + r]);
  }
  TileSums term_sums(group_.generation, begin, rows_count);
  for (int32_t q = 0; q < queries_count_; ++q) SelectRows(q, begin, rows_count, term_sums, space);
}

// Adds the rows of a tile that may be in the answer. The filter leaves few rows; each is scored by
// the one definition in score.h.
void GenerationScan::SelectRows(int32_t query, int64_t begin, int32_t rows_count,
                                TileSums& term_sums, ThreadWorkspace& space) {
  const FinalScores finals = group_.finals(query);
  TopKeys& best = space.best[static_cast<size_t>(query)];
  std::atomic<uint64_t>& shared = context_.workspace->thresholds[static_cast<size_t>(query)];
  best.RaiseThreshold(shared.load(std::memory_order_relaxed));
  const uint64_t threshold_before = best.threshold();

  const Metric metric = group_.format.metric;
  const double query_square =
      metric == Metric::kCosine ? context_.workspace->query_squares[static_cast<size_t>(query)] : 1;
  const double* const sums = space.sums.get() + int64_t{query} * rows_a_tile_;
  ScoreFilter filter;
  filter.metric = metric;
  filter.sums = sums;
  filter.row_roots = space.row_roots.get();
  filter.query_root = std::sqrt(query_square);
  filter.rows_count = rows_count;
  filter.score_min = threshold_before == score::kNoKey
                         ? score::MinusInfinity()
                         : finals.ScoreToReach(score::KeyScore(threshold_before), term_sums);
  // The filter does not clamp: a cosine just below -1 scores -1.
  if (metric == Metric::kCosine && filter.score_min <= -1.0f) {
    filter.score_min = score::MinusInfinity();
  }
  const backend::AbsentRows absent = context_.workspace->absent[static_cast<size_t>(query)];
  int32_t* const surviving = space.surviving.get();
  const int32_t surviving_count = context_.kernels->filter(filter, surviving);
  for (int32_t i = 0; i < surviving_count; ++i) {
    const int64_t slot = begin + surviving[i];
    if (absent.Holds(slot)) continue;
    const float score = planes_.Score(metric, sums[surviving[i]], query_square, slot);
    best.Push(score::OrderKey(finals.OfRow(slot).Of(score), planes_.ranks()[slot]));
  }

  const uint64_t threshold = best.threshold();
  if (threshold == threshold_before) return;
  uint64_t known = threshold_before;
  while (known < threshold &&
         !shared.compare_exchange_weak(known, threshold, std::memory_order_relaxed)) {
  }
}

void GenerationScan::Merge(const ScanOutput& best, int32_t worker) {
  for (int32_t q; (q = next_merge_.fetch_add(1, std::memory_order_relaxed)) < queries_count_;) {
    best.Assign(q, MergeLists(*context_.workspace, participants_, q, worker));
  }
}

absl::Status GenerationScan::Run(const ScanOutput& best, backend::ScanCost* cost) {
  if (group_.Cancelled()) return absl::CancelledError("search cancelled by its caller");
  PlanTiles();
  PrepareWorkspace();
  context_.pool->Run(participants_, [this](int32_t worker) { ScanTiles(worker); });
  ABSL_RETURN_IF_ERROR(error_.status());
  if (cancelled_.load()) return absl::CancelledError("search cancelled by its caller");

  int64_t keys = 0;
  for (int32_t w = 0; w < participants_; ++w) {
    for (int32_t q = 0; q < queries_count_; ++q) {
      const TopKeys& part =
          context_.workspace->threads[static_cast<size_t>(w)].best[static_cast<size_t>(q)];
      keys += part.end() - part.begin();
      cost->candidates += part.taken();
    }
  }
  cost->bytes_read += planes_.rows_count() * planes_.stride_bytes();
  const int32_t mergers = MergeThreads(keys, queries_count_, participants_);
  context_.pool->Run(mergers, [&](int32_t worker) { Merge(best, worker); });
  return absl::OkStatus();
}

}  // namespace nearfield::cpu

#include "engine/cpu/code_scan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/list_merge.h"
#include "engine/score/arithmetic_mode.h"
#include "engine/score/score.h"

namespace nearfield::cpu {
namespace {

// Bytes of codes per tile: about 10 us of work for one query.
constexpr int64_t kTileBytes = 128 << 10;
constexpr int32_t kTileRowsMax = 512;
// For panels: small enough that a tile stays in the L2 cache while all panels are scanned.
constexpr int64_t kPanelTileBytes = 192 << 10;
constexpr int32_t kPanelTileRowsMax = 256;
// Upper limits of a thread's speed, as in generation_scan.cc.
constexpr int64_t kCodeBytesPerUs = 20'000;
constexpr int64_t kMultiplyAddsPerUs = 250'000;
constexpr int64_t kThreadUs = 20;
constexpr int64_t kTilesPerThread = 4;
// Probes: tiles from all over the generation that are scanned first. Their candidates are typical
// in any order of the rows, so floors rise early and queries without benefit from codes are
// recognized early.
constexpr int64_t kProbesMax = 16;
constexpr int64_t kTilesAProbe = 4;
constexpr int64_t kProbeStep = 5;
// Rows whose lower bounds give a first floor, in groups.
constexpr int32_t kFloorGroups = 32;
constexpr int32_t kFloorRows = 4 * kFloorGroups;

// A query abandons codes when all its threads together have scored too many rows: a scan of all
// rows is cheaper if more than one row in this number must be scored. In a batch that scan is about
// three times as fast per row.
constexpr int64_t kRowsAScore = 8;
constexpr int64_t kRowsAScoreInPanels = 16;
// Scores allowed at the start, which do not yet prove anything: per thread, and one per this many
// rows of the generation.
constexpr int64_t kScoresAThread = 128;
constexpr int64_t kRowsAScoreAtFirst = 128;

}  // namespace

CodeScan::CodeScan(const GenerationScan::Context& context, const QueryGroup& group,
                   CodeQueries& queries, const backend::GenerationView& view)
    : context_(context),
      group_(group),
      queries_(queries),
      planes_(static_cast<const CpuRowPlanes&>(*view.planes)),  // same backend, by contract
      view_(view),
      deleted_(view.tombstones == nullptr ? nullptr : view.tombstones->words().data()),
      queries_count_(queries.count()) {}

void CodeScan::PlanTiles() {
  const int64_t rows = planes_.rows_count();
  const int64_t stride = planes_.code_stride();
  const int64_t scan_us = group_.cached ? 0 : rows * stride / kCodeBytesPerUs;
  const int64_t multiply_us = rows * queries_count_ * group_.format.dim / kMultiplyAddsPerUs;
  participants_ = static_cast<int32_t>(std::clamp<int64_t>(
      std::max(scan_us, multiply_us) / kThreadUs, 1, context_.pool->threads_count()));
  const bool panels = queries_.in_panels();
  const int64_t rows_fitting = panels
                                   ? std::min<int64_t>(kPanelTileBytes / stride, kPanelTileRowsMax)
                                   : std::min<int64_t>(kTileBytes / stride, kTileRowsMax);
  const int64_t rows_even = CeilDiv(rows, participants_ * kTilesPerThread);
  const int64_t wanted = participants_ == 1 ? rows_fitting : std::min(rows_fitting, rows_even);
  rows_a_tile_ = static_cast<int32_t>(RoundUp(
      std::max<int64_t>(wanted, 1), panels ? queries_.kernels().panel_rows : kCodeRowGroup));
  tiles_count_ = CeilDiv(rows, rows_a_tile_);
  probes_count_ = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::min(kProbesMax, tiles_count_ / kTilesAProbe))));
}

// Returns the tile to scan at `turn`. First come the probes, which are the first tiles of equal
// stretches, in scattered order. All other tiles follow in order. Backward, tiles are numbered from
// the last.
int64_t CodeScan::TileAt(int64_t turn) const {
  const int64_t tile = ForwardTileAt(turn);
  return group_.backward ? tiles_count_ - 1 - tile : tile;
}

int64_t CodeScan::ForwardTileAt(int64_t turn) const {
  if (probes_count_ == 0) return turn;
  const int64_t stretch = tiles_count_ / probes_count_;
  if (turn < probes_count_) {  // a power of two, so the odd step visits all probes
    return (probes_count_ / 2 + turn * kProbeStep) % probes_count_ * stretch;
  }
  const int64_t other = turn - probes_count_;
  const int64_t before = std::min(other / (stretch - 1) + 1, probes_count_);
  return other + before;
}

void CodeScan::PrepareWorkspace() {
  Workspace& workspace = *context_.workspace;
  const auto queries = static_cast<size_t>(queries_count_);
  PrepareLists(workspace, group_.k, planes_.rows_count(), participants_);
  ListAbsentRows(group_, view_, &workspace.absent);
  workspace.candidate_offsets.resize(queries);
  int64_t candidates = 0;
  for (size_t q = 0; q < queries; ++q) {
    workspace.candidate_offsets[q] = candidates;
    candidates += Candidates::Capacity(group_.k[q], rows_a_tile_);
  }
  const int64_t width = int64_t{queries_.panels_count()} * queries_.kernels().lanes;
  const int64_t width_max = int64_t{kPanelsMax} * queries_.kernels().lanes;
  for (int32_t worker = 0; worker < participants_; ++worker) {
    ThreadWorkspace& space = workspace.threads[static_cast<size_t>(worker)];
    if (queries_.in_panels()) {
      space.products.Ensure(queries_.kernels().panel_rows * width_max);
      space.survivors.Ensure(queries_.kernels().panel_rows * width_max);
      space.thresholds.Ensure(width);
      if (deleted_ != nullptr) PrepareLiveTile(planes_.code_stride(), rows_a_tile_, space);
    } else {
      space.products.Ensure(int64_t{2} * rows_a_tile_);
      space.surviving.Ensure(rows_a_tile_);
      space.upper.Ensure(rows_a_tile_);
    }
    Candidate* const waiting = space.candidates.Ensure(candidates);
    space.lists.resize(std::max(space.lists.size(), queries));
    for (size_t q = 0; q < queries; ++q) {
      space.lists[q].Reset(waiting + workspace.candidate_offsets[q],
                           Candidates::Capacity(group_.k[q], rows_a_tile_), static_cast<int32_t>(q),
                           group_.k[q]);
    }
  }
}

void CodeScan::ScanTiles(int32_t worker) {
  if (!error_.Check(score::CheckArithmeticMode())) return;
  ThreadWorkspace& space = context_.workspace->threads[static_cast<size_t>(worker)];
  if (queries_.in_panels()) queries_.kernels().begin_panels();
  ScanTilesOf(worker, space);
  if (queries_.in_panels()) queries_.kernels().end_panels();
  if (cancelled_.load(std::memory_order_relaxed)) return;
  for (int32_t q = 0; q < queries_count_; ++q) {
    if (!queries_.abandoned(q)) space.lists[static_cast<size_t>(q)].Finish(ContextOf(space));
  }
}

void CodeScan::ScanTilesOf(int32_t worker, ThreadWorkspace& space) {
  for (int64_t turn; (turn = next_turn_.fetch_add(1, std::memory_order_relaxed)) < tiles_count_;) {
    if (worker == 0 && group_.Cancelled()) cancelled_.store(true, std::memory_order_relaxed);
    if (cancelled_.load(std::memory_order_relaxed)) return;
    const int64_t begin = TileAt(turn) * rows_a_tile_;
    const auto rows_count =
        static_cast<int32_t>(std::min<int64_t>(rows_a_tile_, planes_.rows_count() - begin));
    int64_t rows_read = rows_count;
    if (queries_.in_panels()) {
      const LiveTile live = LiveRows(planes_, deleted_, begin, rows_count, space);
      ScanTileInPanels(begin, rows_count, live, space);
      rows_read = live.tile.rows_count;
    } else {
      ScanTileOneByOne(begin, rows_count, space);
    }
    rows_read_.fetch_add(rows_read, std::memory_order_relaxed);
    rows_scanned_.fetch_add(rows_count, std::memory_order_relaxed);
    FinalizeTile(space);
  }
}

void CodeScan::ScanTileOneByOne(int64_t begin, int32_t rows_count, ThreadWorkspace& space) {
  const CodeKernels& kernels = queries_.kernels();
  int32_t* const first = space.products.get();
  int32_t* const second = first + rows_a_tile_;
  CodeTile tile = planes_.code_tile(begin, rows_count);
  tile.streamed = !group_.cached;
  TileSums term_sums(group_.generation, begin, rows_count);
  for (int32_t q = 0; q < queries_count_; ++q) {
    if (queries_.abandoned(q)) continue;
    kernels.scan_one(tile, queries_.one(q), first, second);
    if (queries_.floor(q).score() == score::MinusInfinity()) {
      RaiseFirstFloor(q, begin, rows_count, space);
    }
    const FinalScores finals = group_.finals(q);
    const float floor = queries_.floor(q).score();
    const OneFilter filter = {.bounds = planes_.bounds() + begin,
                              .first = first,
                              .second = second,
                              .query = queries_.bound(q),
                              .threshold = finals.ScoreToReach(floor, term_sums),
                              .rows_count = rows_count};
    const int32_t surviving = kernels.filter_one(filter, space.surviving.get(), space.upper.get());
    Candidates& list = space.lists[static_cast<size_t>(q)];
    LowerBounds lower_bounds(queries_.floor(q));
    for (int32_t i = 0; i < surviving; ++i) {
      const int32_t row = space.surviving.get()[i];
      if (Absent(q, begin + row)) continue;
      const FinalScoreOfRow final = finals.OfRow(begin + row);
      const float upper = final.Upper(space.upper.get()[i]);
      if (upper < floor) continue;  // the row's own terms are less than those of the tile
      list.Push(OrderableUpper(upper), static_cast<uint32_t>(begin + row));
      lower_bounds.Add(filter.bounds[row], filter.query,
                       bound::CodeProduct(filter.query, first[row], second[row]), final);
    }
  }
}

// Gives the query a floor that k rows of the tile reach by their lower bounds. The rows are divided
// into groups; the k-th best of the groups' maxima is reached by as many rows.
void CodeScan::RaiseFirstFloor(int32_t query, int64_t begin, int32_t rows_count,
                               const ThreadWorkspace& space) {
  const int32_t k = group_.k[static_cast<size_t>(query)];
  if (k > kFloorGroups) return;
  const bound::QueryBound& bound = queries_.bound(query);
  const int32_t* const first = space.products.get();
  const int32_t* const second = first + rows_a_tile_;
  float maxima[kFloorGroups];
  std::fill(maxima, maxima + kFloorGroups, score::MinusInfinity());
  const FinalScores finals = group_.finals(query);
  for (int32_t r = 0; r < std::min(rows_count, kFloorRows); ++r) {
    if (Absent(query, begin + r)) continue;
    const bound::RowBound& row = planes_.bounds()[begin + r];
    const float product = bound::CodeProduct(bound, first[r], second[r]);
    float& maximum = maxima[r % kFloorGroups];
    const float lower = bound::RangeOfScore(row, row, bound, product, 0.0f).lower;
    maximum = std::max(maximum, finals.OfRow(begin + r).Lower(lower));
  }
  std::nth_element(maxima, maxima + k - 1, maxima + kFloorGroups, std::greater<>());
  queries_.floor(query).Raise(maxima[k - 1]);
}

void CodeScan::ScanTileInPanels(int64_t begin, int32_t rows_count, const LiveTile& live,
                                ThreadWorkspace& space) {
  const CodeKernels& kernels = queries_.kernels();
  float* const thresholds = space.thresholds.get();
  TileSums term_sums(group_.generation, begin, rows_count);
  for (int32_t q = 0; q < queries_count_; ++q) {
    thresholds[q] = group_.finals(q).ScoreToReach(queries_.floor(q).score(), term_sums);
  }
  std::fill(thresholds + queries_count_, thresholds + queries_.panels_count() * kernels.lanes,
            -score::MinusInfinity());  // lanes without a query take the fast path
  for (int32_t panel = 0; panel < queries_.panels_count(); panel += kPanelsMax) {
    const int32_t panels = std::min(kPanelsMax, queries_.panels_count() - panel);
    const int32_t query = panel * kernels.lanes;
    for (int32_t r = 0; r < live.tile.rows_count; r += kernels.panel_rows) {
      const int32_t rows_here = std::min(kernels.panel_rows, live.tile.rows_count - r);
      CodeTile part = live.tile;
      part.codes += r * planes_.code_stride();
      part.rows_count = rows_here;
      kernels.scan_panels(part, queries_.panel(panel), panels, space.products.get());
      const int32_t width = panels * kernels.lanes;
      const PanelFilter filter = {.bounds = live.bounds + r,
                                  .rows_count = rows_here,
                                  .products = space.products.get(),
                                  .width = width,
                                  .queries_count = std::min(width, queries_count_ - query),
                                  .first_scale = queries_.first_scale() + query,
                                  .of_residual = queries_.of_residual() + query,
                                  .of_norm = queries_.of_norm() + query,
                                  .squared_norm_lower = queries_.squared_norm_lower() + query,
                                  .threshold = thresholds + query};
      const int32_t count = kernels.filter_panels(filter, space.survivors.get());
      for (int32_t i = 0; i < count; ++i) {
        const Survivor& survivor = space.survivors.get()[i];
        const int64_t slot = begin + live.RowAt(r + survivor.row);
        const int32_t q = query + survivor.query;
        if (Absent(q, slot) || queries_.abandoned(q)) continue;
        const float upper = group_.finals(q).OfRow(slot).Upper(survivor.upper);
        if (upper < queries_.floor(q).score()) continue;
        space.lists[static_cast<size_t>(q)].Push(OrderableUpper(upper),
                                                 static_cast<uint32_t>(slot));
      }
    }
  }
}

bool CodeScan::RowsAreCheaper(int32_t query, int64_t work, int64_t waiting) const {
  const int64_t rows = planes_.rows_count();
  const int64_t scanned = std::max<int64_t>(1, rows_scanned_.load(std::memory_order_relaxed));
  const int64_t rows_a_score = queries_.in_panels() ? kRowsAScoreInPanels : kRowsAScore;
  const int64_t scores = work / Candidates::kScoreWork + waiting;
  const int64_t at_first = participants_ * (kScoresAThread + group_.k[static_cast<size_t>(query)]) +
                           rows / kRowsAScoreAtFirst;
  if (scores <= at_first + scanned / rows_a_score) return false;
  // The scores that remain at this rate, compared with scanning all rows.
  return scores * (rows - scanned) / scanned + waiting > rows / rows_a_score;
}

void CodeScan::FinalizeTile(ThreadWorkspace& space) {
  const CandidateContext context = ContextOf(space);
  bool all_abandoned = true;
  for (int32_t q = 0; q < queries_count_; ++q) {
    if (queries_.abandoned(q)) continue;
    all_abandoned = false;
    Candidates& list = space.lists[static_cast<size_t>(q)];
    if (!list.HasNew()) continue;
    int64_t work = queries_.AddWork(q, list.FinalizeTile(context, queries_.in_panels()));
    if (list.TooManyWait()) work = queries_.AddWork(q, list.ReduceWaiting(context));
    const int64_t waiting = list.TooManyWait() ? list.waiting() : 0;  // scores still to compute
    if (RowsAreCheaper(q, work, waiting)) {
      queries_.Abandon(q);
    } else if (waiting > 0) {
      queries_.AddWork(q, list.ScoreSome(context));
    }
  }
  if (all_abandoned) next_turn_.store(tiles_count_, std::memory_order_relaxed);
}

absl::Status CodeScan::Run(const ScanOutput& best, backend::ScanCost* cost) {
  if (group_.Cancelled()) return absl::CancelledError("search cancelled by its caller");
  for (int32_t q = 0; q < queries_count_; ++q) queries_.ResetWork(q);
  PlanTiles();
  PrepareWorkspace();
  context_.pool->Run(participants_, [this](int32_t worker) { ScanTiles(worker); });
  ABSL_RETURN_IF_ERROR(error_.status());
  if (cancelled_.load()) return absl::CancelledError("search cancelled by its caller");

  int64_t keys = 0;
  int64_t rescored = 0;
  for (int32_t w = 0; w < participants_; ++w) {
    const ThreadWorkspace& space = context_.workspace->threads[static_cast<size_t>(w)];
    for (int32_t q = 0; q < queries_count_; ++q) {
      const TopKeys& part = space.best[static_cast<size_t>(q)];
      keys += part.end() - part.begin();
      rescored += space.lists[static_cast<size_t>(q)].rescored();
    }
  }
  cost->candidates += rescored;
  cost->bytes_read +=
      rows_read_.load() * (planes_.code_stride() + static_cast<int64_t>(sizeof(bound::RowBound))) +
      rescored * planes_.stride_bytes();
  const int32_t mergers = MergeThreads(keys, queries_count_, participants_);
  context_.pool->Run(mergers, [&](int32_t worker) {
    for (int32_t q; (q = next_merge_.fetch_add(1, std::memory_order_relaxed)) < queries_count_;) {
      if (queries_.abandoned(q)) continue;
      best.Assign(q, MergeLists(*context_.workspace, participants_, q, worker));
    }
  });
  return absl::OkStatus();
}

}  // namespace nearfield::cpu

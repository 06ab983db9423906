#include "engine/cpu/candidates.h"

#include <algorithm>

#include "engine/cpu/code_queries.h"
#include "engine/cpu/generation_scan.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/top_keys.h"
#include "engine/cpu/workspace.h"
#include "engine/score/order.h"

namespace nearfield::cpu {
namespace {

constexpr int64_t kScoredAtOnce = ScoreFloor::kAddedMax;
static_assert(kScoredAtOnce % kRowGroup == 0);

}  // namespace

void Candidates::DropRuledOut(int64_t begin, float floor) {
  int64_t kept = begin;
  for (int64_t i = begin; i < count_; ++i) {
    waiting_[kept] = waiting_[i];
    kept += waiting_[i].upper < floor ? 0 : 1;
  }
  count_ = kept;
}

void Candidates::Refine(const CandidateContext& context) {
  const bound::QueryBound& bound = context.queries->bound(query_);
  const CodeKernels& kernels = context.queries->kernels();
  const FinalScores finals = context.group->finals(query_);
  LowerBounds lower_bounds(context.queries->floor(query_));
  for (int64_t i = refined_; i < count_; ++i) {
    const uint32_t slot = waiting_[i].slot;
    int32_t first[kCodeRowGroup];
    int32_t second[kCodeRowGroup];
    kernels.scan_one(context.planes->code_tile(slot, 1), context.queries->one(query_), first,
                     second);
    const bound::RowBound& row = context.planes->bounds()[slot];
    const float product = bound::CodeProduct(bound, first[0], second[0]);
    const FinalScoreOfRow final = finals.OfRow(slot);
    waiting_[i].upper = OrderableUpper(final.Upper(bound::UpperScore(row, bound, product)));
    lower_bounds.Add(row, bound, product, final);
  }
}

void Candidates::Score(const CandidateContext& context, const Candidate* begin, int64_t count) {
  const CpuRowPlanes& planes = *context.planes;
  const Metric metric = planes.format().metric;
  const FinalScores finals = context.group->finals(query_);
  TopKeys& best = context.space->best[static_cast<size_t>(query_)];
  ListedRows listed;
  listed.plane = planes.tile(0, static_cast<int32_t>(kScoredAtOnce));
  rescored_ += count;
  for (; count > 0; begin += kScoredAtOnce, count -= kScoredAtOnce) {
    uint32_t slots[kScoredAtOnce];
    alignas(64) double sums[kScoredAtOnce];
    float scores[kScoredAtOnce];
    listed.slots = slots;
    listed.count = static_cast<int32_t>(std::min(count, kScoredAtOnce));
    for (int32_t i = 0; i < listed.count; ++i) slots[i] = begin[i].slot;
    context.kernels->scan_listed(
        listed, metric == Metric::kL2 ? SumKind::kSquaredDistance : SumKind::kProduct,
        context.queries->wide(query_), sums);
    for (int32_t i = 0; i < listed.count; ++i) {
      const float s = planes.Score(metric, sums[i], context.queries->square(query_), slots[i]);
      scores[i] = finals.OfRow(slots[i]).Of(s);
      DCHECK_LE(scores[i], begin[i].upper);  // the certified bound
      best.Push(score::OrderKey(scores[i], planes.ranks()[slots[i]]));
    }
    context.queries->floor(query_).Add(ScoreFloor::kScores, scores, listed.count);
  }
}

void Candidates::ScoreTop(const CandidateContext& context, int64_t count) {
  std::nth_element(waiting_, waiting_ + count - 1, waiting_ + count_,
                   [](const Candidate& a, const Candidate& b) { return a.upper > b.upper; });
  Score(context, waiting_, count);
  std::copy(waiting_ + count, waiting_ + count_, waiting_);
  count_ -= count;
  DropRuledOut(0, context.queries->floor(query_).score());
}

void Candidates::ScoreBest(const CandidateContext& context, int64_t keep) {
  const ScoreFloor& floor = context.queries->floor(query_);
  DropRuledOut(0, floor.score());
  refined_ = count_;
  if (count_ <= keep) return;
  std::sort(waiting_, waiting_ + count_,
            [](const Candidate& a, const Candidate& b) { return a.upper > b.upper; });
  // Score a few at a time: each step may raise the floor enough to rule out the rest.
  const int64_t at_once = std::max<int64_t>(16, k_ / 2);
  int64_t scored = 0;
  while (count_ - scored > keep) {
    int64_t end = scored;
    const int64_t end_max = std::min(count_, scored + at_once);
    while (end < end_max && !(waiting_[end].upper < floor.score())) ++end;
    if (end == scored) break;
    Score(context, waiting_ + scored, end - scored);
    scored = end;
  }
  std::copy(waiting_ + scored, waiting_ + count_, waiting_);
  count_ -= scored;
  DropRuledOut(0, floor.score());
  refined_ = count_;
}

int64_t Candidates::FinalizeTile(const CandidateContext& context, bool refine) {
  const ScoreFloor& floor = context.queries->floor(query_);
  const int64_t rescored_before = rescored_;
  const auto floor_unknown = [&] { return floor.score() == score::MinusInfinity(); };
  // The k best candidates so far give a first floor. That mixes all candidates, so none of them is
  // refined before: refining one twice would give the floor two lower bounds of one row.
  if (floor_unknown() && count_ >= k_) ScoreTop(context, k_);
  int64_t refined = 0;
  if (refine && !floor_unknown()) {
    refined = count_ - refined_;
    Refine(context);
    DropRuledOut(refined_, floor.score());  // older ones stay until there are too many
  }
  if (!refine || refined > 0) refined_ = count_;
  return refined + kScoreWork * (rescored_ - rescored_before);
}

int64_t Candidates::ReduceWaiting(const CandidateContext& context) {
  const int64_t rescored_before = rescored_;
  DropRuledOut(0, context.queries->floor(query_).score());
  if (TooManyWait()) ScoreTop(context, k_);
  refined_ = count_;
  return kScoreWork * (rescored_ - rescored_before);
}

int64_t Candidates::ScoreSome(const CandidateContext& context) {
  const int64_t rescored_before = rescored_;
  ScoreBest(context, WaitingMax(k_) / 2);
  return kScoreWork * (rescored_ - rescored_before);
}

}  // namespace nearfield::cpu

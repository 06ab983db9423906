// Candidates: rows of one query and one thread that bounds do not rule out, and their scores.
#pragma once

#include <cstdint>

#include "engine/base/check.h"
#include "engine/bound/certified_bound.h"
#include "engine/cpu/final_scores.h"
#include "engine/cpu/score_floor.h"
#include "engine/score/score.h"

namespace nearfield::cpu {

class CodeQueries;
class CpuRowPlanes;
struct QueryGroup;
struct ScanKernels;
struct ThreadWorkspace;

struct Candidate {
  float upper = 0;  // at least its final score; never NaN
  uint32_t slot = 0;
};
// Maps NaN, a bound that says nothing, to +inf, so that bounds can be ordered.
inline float OrderableUpper(float upper) {
  return upper == upper ? upper : -score::MinusInfinity();
}

// The generation and the thread that candidates are scored with.
struct CandidateContext {
  const CpuRowPlanes* planes = nullptr;
  const ScanKernels* kernels = nullptr;
  CodeQueries* queries = nullptr;
  ThreadWorkspace* space = nullptr;
  const QueryGroup* group = nullptr;
};

// Lower bounds of final scores that are added to the floor together.
class LowerBounds {
 public:
  explicit LowerBounds(ScoreFloor& floor) : floor_(floor) {}
  ~LowerBounds() { floor_.Add(ScoreFloor::kLowerBounds, values_, count_); }
  LowerBounds(const LowerBounds&) = delete;
  LowerBounds& operator=(const LowerBounds&) = delete;
  // product: bound::CodeProduct of both codes.
  void Add(const bound::RowBound& row, const bound::QueryBound& query, float product,
           const FinalScoreOfRow& final) {
    const float lower = final.Lower(bound::RangeOfScore(row, row, query, product, 0.0f).lower);
    if (!(lower > floor_.score())) return;
    values_[count_++] = lower;
    if (count_ < ScoreFloor::kAddedMax) return;
    floor_.Add(ScoreFloor::kLowerBounds, values_, count_);
    count_ = 0;
  }

 private:
  ScoreFloor& floor_;
  float values_[ScoreFloor::kAddedMax];
  int64_t count_ = 0;
};

// The waiting candidates of one query on one thread. Only those with the best bounds are scored
// immediately: their scores raise the floor, which rules out most of the others while they wait.
// The caller lends the memory.
class Candidates {
 public:
  // Returns how many candidates may wait. The candidates of one tile may exceed it temporarily.
  static constexpr int64_t WaitingMax(int32_t k) { return int64_t{2} * k + 128; }
  // Returns the storage needed for k and tiles of this many rows, in candidates.
  static constexpr int64_t Capacity(int32_t k, int64_t tile_rows) {
    return WaitingMax(k) + tile_rows;
  }

  // Requires: `storage` has room for `capacity` candidates.
  void Reset(Candidate* storage, int64_t capacity, int32_t query, int32_t k) {
    waiting_ = storage;
    capacity_ = capacity;
    query_ = query;
    k_ = k;
    count_ = 0;
    refined_ = 0;
    rescored_ = 0;
  }

  void Push(float upper, uint32_t slot) {
    DCHECK_LT(count_, capacity_);
    waiting_[count_++] = {upper, slot};
  }
  bool HasNew() const { return count_ > refined_; }

  // Scoring a row at a random address costs about as much as refining the bounds of this many rows.
  static constexpr int64_t kScoreWork = 8;

  // Call after each tile. Scores the best candidates if no floor is known. If `refine`, the bounds
  // of the new candidates are of the first code alone, and both codes refine them. Returns the work
  // done, in bounds refined and rows scored (kScoreWork each).
  int64_t FinalizeTile(const CandidateContext& context, bool refine);
  // If more candidates wait than allowed, scores a few of the best to raise the floor, then drops
  // the candidates whose bounds are below the new floor. Returns the work done.
  int64_t ReduceWaiting(const CandidateContext& context);
  bool TooManyWait() const { return count_ > WaitingMax(k_); }
  int64_t waiting() const { return count_; }
  // Scores the best until at most half of WaitingMax wait. Returns the work done.
  int64_t ScoreSome(const CandidateContext& context);
  // Scores all remaining candidates that are not ruled out.
  void Finish(const CandidateContext& context) { ScoreBest(context, 0); }

  int64_t rescored() const { return rescored_; }

 private:
  // Drops the ruled-out candidates at index `begin` and after it.
  void DropRuledOut(int64_t begin, float floor);
  // Scores the best `count` <= waiting(), then drops what is ruled out. Leaves the rest unordered.
  void ScoreTop(const CandidateContext& context, int64_t count);
  void Refine(const CandidateContext& context);
  void Score(const CandidateContext& context, const Candidate* begin, int64_t count);
  // Scores candidates, best first, until at most `keep` remain.
  void ScoreBest(const CandidateContext& context, int64_t keep);

  Candidate* waiting_ = nullptr;
  int64_t capacity_ = 0;
  int32_t query_ = 0;
  int32_t k_ = 0;
  int64_t count_ = 0;
  int64_t refined_ = 0;  // candidates [0, refined_) have bounds with all codes
  int64_t rescored_ = 0;
};

}  // namespace nearfield::cpu

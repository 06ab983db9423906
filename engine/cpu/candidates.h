// Rows that bounds do not rule out, of one query and one thread, and their canonical scores.
#ifndef NEARFIELD_ENGINE_CPU_CANDIDATES_H_
#define NEARFIELD_ENGINE_CPU_CANDIDATES_H_

#include <cstdint>

#include "engine/score/score.h"

namespace nearfield::cpu {

class CodeQueries;
class CpuRowPlanes;
struct ScanKernels;
struct ThreadWorkspace;

struct Candidate {
  float upper = 0;  // at least its score; never NaN
  uint32_t slot = 0;
};
// A bound that says nothing is the greatest.
inline float OrderableUpper(float upper) {
  return upper == upper ? upper : -score::MinusInfinity();
}

// What candidates are scored with: one generation, one thread.
struct CandidateContext {
  const CpuRowPlanes* planes = nullptr;
  const ScanKernels* kernels = nullptr;
  CodeQueries* queries = nullptr;
  ThreadWorkspace* space = nullptr;
};

// They wait, so that most are ruled out by the floor that the best of them set: only these, the
// best by their bounds, are scored at once. Memory is lent.
class Candidates {
 public:
  // Candidates that may wait; a tile's may come on top.
  static constexpr int64_t WaitingMax(int32_t k) { return int64_t{2} * k + 128; }

  void Reset(Candidate* storage, int32_t query, int32_t k) {
    waiting_ = storage;
    query_ = query;
    k_ = k;
    count_ = 0;
    refined_ = 0;
    rescored_ = 0;
  }

  void Push(float upper, uint32_t slot) { waiting_[count_++] = {upper, slot}; }
  bool HasNew() const { return count_ > refined_; }

  // To score a row that lies anywhere costs about as much as to refine the bounds of this many.
  static constexpr int64_t kScoreWork = 8;

  // After a tile. refine: the bounds of the new ones are of the first code alone. Scores the best
  // where no floor is known. Returns what it took, in bounds refined and rows scored (kScoreWork
  // each).
  int64_t Settle(const CandidateContext& context, bool refine);
  // Where more wait than may: scores a few of the best, for a higher floor, and drops what that
  // rules out. Returns what it took.
  int64_t Thin(const CandidateContext& context);
  bool TooManyWait() const { return count_ > WaitingMax(k_); }
  int64_t waiting() const { return count_; }
  // Scores the best until half as many wait as may. Returns what it took.
  int64_t ScoreSome(const CandidateContext& context);
  // Scores all that are left and not ruled out.
  void Finish(const CandidateContext& context) { ScoreBest(context, 0); }

  int64_t rescored() const { return rescored_; }

 private:
  // Of those from `begin` on.
  void DropRuledOut(int64_t begin, float floor);
  // Scores the best `count` <= waiting(); then drops what is ruled out. The rest is in no order.
  void ScoreTop(const CandidateContext& context, int64_t count);
  void Refine(const CandidateContext& context);
  void Score(const CandidateContext& context, const Candidate* begin, int64_t count);
  // Best first, until at most `keep` are left.
  void ScoreBest(const CandidateContext& context, int64_t keep);

  Candidate* waiting_ = nullptr;
  int32_t query_ = 0;
  int32_t k_ = 0;
  int64_t count_ = 0;
  int64_t refined_ = 0;  // the first ones' bounds are of all codes
  int64_t rescored_ = 0;
};

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_CANDIDATES_H_

// Inputs of the selection tests and benchmarks: adversarial scores, shapes around every border,
// rows that begin anywhere. They are the same for one seed on every machine. Needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nearfield/engine/select.h"
#include "tests/engine/topk/kit/select_oracle.h"
#include "tests/testing/random.h"

namespace nearfield::select {

enum class Input : uint8_t {
  kNormal,
  kUniform,
  kAllEqual,
  kTwoValues,
  kFewDistinct,
  kSortedUp,
  kSortedDown,
  kOneBin,              // all in [0.7, 0.7001]
  kOneUlpApart,         // five neighboring values
  kTiesAtTheThreshold,  // k / 2 better ones, then up to 5,000 equal ones, then the rest
  kZeros,               // +0 and -0, except for a few
  kDenormals,
  kInfinities,        // both signs, few or half
  kAllMinusInfinity,  // but one row in four has one finite score
  kFewNans,           // either sign, any payload
  kHalfNans,
  kAllNans,
  kMaxFinite,    // the largest finite values of both signs, with others
  kOneOutlier,   // all others in one bin
  kHeavyTailed,  // e to the power of a normal variable
  kBestTogether,
  kBestAtTheEnd,
  kBestAtTheStart,
  kPeriod32,
  kPeriod64,
  kPeriod4096,
  kClustered,   // runs of 32 close values
  kRandomBits,  // any bits, so all of the above
};
struct NamedInput {
  Input input;
  const char* name;
};
inline constexpr NamedInput kInputs[] = {
    {Input::kNormal, "normal"},
    {Input::kUniform, "uniform"},
    {Input::kAllEqual, "all_equal"},
    {Input::kTwoValues, "two_values"},
    {Input::kFewDistinct, "few_distinct"},
    {Input::kSortedUp, "sorted_up"},
    {Input::kSortedDown, "sorted_down"},
    {Input::kOneBin, "one_bin"},
    {Input::kOneUlpApart, "one_ulp_apart"},
    {Input::kTiesAtTheThreshold, "ties_at_the_threshold"},
    {Input::kZeros, "zeros"},
    {Input::kDenormals, "denormals"},
    {Input::kInfinities, "infinities"},
    {Input::kAllMinusInfinity, "all_minus_inf"},
    {Input::kFewNans, "few_nans"},
    {Input::kHalfNans, "half_nans"},
    {Input::kAllNans, "all_nans"},
    {Input::kMaxFinite, "max_finite"},
    {Input::kOneOutlier, "one_outlier"},
    {Input::kHeavyTailed, "heavy_tailed"},
    {Input::kBestTogether, "best_together"},
    {Input::kBestAtTheEnd, "best_at_the_end"},
    {Input::kBestAtTheStart, "best_at_the_start"},
    {Input::kPeriod32, "period_32"},
    {Input::kPeriod64, "period_64"},
    {Input::kPeriod4096, "period_4096"},
    {Input::kClustered, "clustered"},
    {Input::kRandomBits, "random_bits"},
};

const char* NameOf(Input input);

// Returns true for the extremes of floating-point formats. With an integer type these inputs have
// the same bits, so their names do not hold.
bool NeedsAFloat(Input input);

struct SelectCase {
  Shape shape;
  Input input = Input::kNormal;
  uint64_t seed = 0;          // of the scores
  int64_t stride = 0;         // as in Buffers
  int64_t scores_offset = 0;  // elements from a 256-byte boundary to the first score
  int64_t values_offset = 0;  // the same for the outputs
  int64_t indices_offset = 0;
  bool margin_behind = true;  // false: the scores end where their allocation ends
  // Bounds of ragged rows, as in Buffers; empty: null.
  std::vector<int32_t> row_begin;
  std::vector<int32_t> row_end;
};

// The scores of one row of a case: columns [begin, begin + size).
struct RowSpan {
  int64_t begin = 0;
  int64_t size = 0;
};
RowSpan SpanOf(const SelectCase& problem, int64_t row);

// Returns all that is needed to run the case again.
std::string Describe(const SelectCase& problem);

// A batch of scores as copied to the device, with the best score wherever there is no score: a
// value that is read from outside a row and used shows in the answer.
class HostScores {
 public:
  explicit HostScores(const SelectCase& problem);

  const std::vector<char>& image() const { return image_; }
  int64_t begin() const { return begin_; }  // byte of the image where the first score begins
  int64_t stride() const { return stride_; }
  const char* Row(int64_t row) const { return image_.data() + ByteOf(row, 0); }
  char* Row(int64_t row) { return image_.data() + ByteOf(row, 0); }
  const char* At(int64_t row, int64_t column) const { return image_.data() + ByteOf(row, column); }
  char* At(int64_t row, int64_t column) { return image_.data() + ByteOf(row, column); }

 private:
  int64_t ByteOf(int64_t row, int64_t column) const {
    return begin_ + (row * stride_ + column * column_stride_) * score_bytes_;
  }

  int64_t score_bytes_;
  int64_t stride_;
  int64_t column_stride_;
  int64_t begin_;
  std::vector<char> image_;
};

HostScores MakeScores(const SelectCase& problem);

// Returns the right answer of a case.
Answer OracleAnswer(const SelectCase& problem, const HostScores& scores);

// Returns every input in every type, in the given shape, with rows anywhere in memory.
std::vector<SelectCase> EveryInputCases(const Shape& shape, testing::Random& random);
// Returns shapes at the limits: the smallest, the longest, the widest.
std::vector<SelectCase> CornerCases(testing::Random& random);
// A sample of inputs x types x batches x lengths x k x strides.
inline constexpr int64_t kSampledScoresMax = 4'200'000;
std::vector<SelectCase> SampledCases(int count, testing::Random& random);
// A sample of ragged rows: empty ones, rows with fewer than k scores, and rows of any length up to
// the limit; some with scores that are not neighbors.
std::vector<SelectCase> RaggedCases(int count, testing::Random& random);
// Returns a few small cases, for compute-sanitizer.
std::vector<SelectCase> SmokeCases(testing::Random& random);

}  // namespace nearfield::select

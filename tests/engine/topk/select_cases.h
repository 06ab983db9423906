// Inputs of the selection tests: adversarial scores, shapes around every border, rows that begin
// anywhere. They are the same for one seed on every machine. Needs no GPU.
#ifndef NEARFIELD_TESTS_ENGINE_TOPK_SELECT_CASES_H_
#define NEARFIELD_TESTS_ENGINE_TOPK_SELECT_CASES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nearfield/engine/select.h"
#include "tests/engine/topk/select_oracle.h"
#include "tests/testing/random.h"

namespace nearfield::select {

enum class Input : uint8_t {
  kNormal,
  kUniform,
  kAllEqual,
  kTwoValues,
  kFewDistinct,
  kAscending,
  kDescending,
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
  kBestAtTheBegin,
  kPeriod32,
  kPeriod64,
  kPeriod4096,
  kClustered,   // runs of 32 close values
  kRandomBits,  // any bits, so all of the above
};
struct NamedInput {
  Input input;
  std::string_view name;
};
inline constexpr NamedInput kInputs[] = {
    {Input::kNormal, "normal"},
    {Input::kUniform, "uniform"},
    {Input::kAllEqual, "all equal"},
    {Input::kTwoValues, "two values"},
    {Input::kFewDistinct, "few distinct"},
    {Input::kAscending, "ascending"},
    {Input::kDescending, "descending"},
    {Input::kOneBin, "one bin"},
    {Input::kOneUlpApart, "one ulp apart"},
    {Input::kTiesAtTheThreshold, "ties at the threshold"},
    {Input::kZeros, "zeros"},
    {Input::kDenormals, "denormals"},
    {Input::kInfinities, "infinities"},
    {Input::kAllMinusInfinity, "all -inf"},
    {Input::kFewNans, "few NaNs"},
    {Input::kHalfNans, "half NaNs"},
    {Input::kAllNans, "all NaNs"},
    {Input::kMaxFinite, "max finite"},
    {Input::kOneOutlier, "one outlier"},
    {Input::kHeavyTailed, "heavy-tailed"},
    {Input::kBestTogether, "best together"},
    {Input::kBestAtTheEnd, "best at the end"},
    {Input::kBestAtTheBegin, "best at the begin"},
    {Input::kPeriod32, "period 32"},
    {Input::kPeriod64, "period 64"},
    {Input::kPeriod4096, "period 4096"},
    {Input::kClustered, "clustered"},
    {Input::kRandomBits, "random bits"},
};

struct SelectCase {
  Shape shape;
  Input input = Input::kNormal;
  uint64_t seed = 0;          // of the scores
  int64_t stride = 0;         // as in Buffers
  int64_t scores_offset = 0;  // elements from a 256-byte boundary to the first score
  int64_t values_offset = 0;  // the same for the outputs
  int64_t indices_offset = 0;
  bool margin_behind = true;  // false: the scores end where their allocation ends
};

// Returns all that is needed to run the case again.
std::string Describe(const SelectCase& problem);

// A batch of scores as copied to the device, with +inf wherever there is no score: a value that is
// read from outside a row and used shows in the answer.
class HostScores {
 public:
  explicit HostScores(const SelectCase& problem);

  const std::vector<char>& image() const { return image_; }
  int64_t begin() const { return begin_; }  // byte of the image where the first score begins
  int64_t stride() const { return stride_; }
  const char* Row(int64_t row) const { return image_.data() + RowBegin(row); }
  char* Row(int64_t row) { return image_.data() + RowBegin(row); }

 private:
  int64_t RowBegin(int64_t row) const { return begin_ + row * stride_ * score_bytes_; }

  int64_t score_bytes_;
  int64_t stride_;
  int64_t begin_;
  std::vector<char> image_;
};

HostScores MakeScores(const SelectCase& problem);

// Returns every input in every type, in the given shape, with rows anywhere in memory.
std::vector<SelectCase> EveryInputCases(const Shape& shape, testing::Random& random);
// Returns shapes at the limits: the smallest, the longest, the widest.
std::vector<SelectCase> CornerCases(testing::Random& random);
// A sample of inputs x types x batches x lengths x k x strides.
inline constexpr int64_t kSampledScoresMax = 4'200'000;
std::vector<SelectCase> SampledCases(int count, testing::Random& random);
// Returns a few small cases, for compute-sanitizer.
std::vector<SelectCase> SmokeCases(testing::Random& random);

}  // namespace nearfield::select

#endif  // NEARFIELD_TESTS_ENGINE_TOPK_SELECT_CASES_H_

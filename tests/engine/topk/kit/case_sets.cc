// The sets of cases that the selection tests run.
#include <algorithm>
#include <utility>

#include "tests/engine/topk/kit/select_cases.h"

namespace nearfield::select {

using testing::Random;

namespace {

// Returns a case with a random seed. Two of three have random offsets, and may have gaps between
// rows.
SelectCase Placed(Shape shape, ScoreType type, Input input, Random& random) {
  shape.type = type;
  shape.k = std::min(shape.k, shape.n);
  SelectCase problem = {.shape = shape, .input = input, .seed = random.Bits()};
  problem.margin_behind = random.OneIn(2);
  if (random.OneIn(3)) return problem;
  problem.scores_offset = random.Between(0, 8);
  problem.values_offset = random.Between(0, 8);
  problem.indices_offset = random.Between(0, 4);
  const int64_t gaps[] = {0, 0, 1, 3, 8, 13, 64, 1001};
  const int64_t gap = random.OneOf<int64_t>(gaps);
  if (gap != 0) problem.stride = shape.n + gap;
  return problem;
}

SelectCase PlacedAtRandom(const Shape& shape, Random& random) {
  return Placed(shape, random.OneOf<ScoreType>(kScoreTypes),
                random.OneOf<NamedInput>(kInputs).input, random);
}

// Returns a length for a row of a case: any of the kinds that matter.
int64_t LengthFor(const Shape& shape, Random& random) {
  switch (random.Between(0, 8)) {
    case 0: return -5;
    case 1: return 0;
    case 2: return 1;
    case 3: return shape.k - 1;
    case 4: return shape.k;
    case 5: return shape.n + 3;
    default: return random.Between(0, shape.n + 1);
  }
}

// Makes a case ragged.
void GiveBounds(SelectCase& problem, Random& random) {
  Shape& shape = problem.shape;
  shape.ragged = true;
  if (random.OneIn(5)) {
    // Scores apart: rows are columns of a matrix, or have gaps between scores.
    shape.column_stride = random.OneIn(2) ? shape.batch : 3;
    problem.stride = shape.column_stride == 3 ? 3 * (shape.n + 40) : 1;
  } else if (problem.stride == 0) {
    problem.stride = shape.n + 40;  // the largest begin fits
  }
  const bool begins = !random.OneIn(3);
  if (!begins || !random.OneIn(6)) problem.row_end.resize(static_cast<size_t>(shape.batch));
  if (begins) problem.row_begin.resize(static_cast<size_t>(shape.batch));
  for (int64_t row = 0; row < shape.batch; ++row) {
    const auto at = static_cast<size_t>(row);
    const int64_t begin = begins ? random.Between(-3, 33) : 0;
    if (begins) problem.row_begin[at] = static_cast<int32_t>(begin);
    if (!problem.row_end.empty()) {
      problem.row_end[at] =
          static_cast<int32_t>(std::max<int64_t>(begin, 0) + LengthFor(shape, random));
    }
  }
}

}  // namespace

std::vector<SelectCase> EveryInputCases(const Shape& shape, Random& random) {
  std::vector<SelectCase> cases;
  for (const NamedInput& named : kInputs) {
    for (const ScoreType type : kScoreTypes) {
      cases.push_back(Placed(shape, type, named.input, random));
    }
  }
  return cases;
}

std::vector<SelectCase> CornerCases(Random& random) {
  constexpr Shape kCorners[] = {
      {.batch = 1, .n = 1, .k = 1},
      {.batch = 1024, .n = 1, .k = 1},
      {.batch = 65'535, .n = 2, .k = 1},
      {.batch = 65'535, .n = 33, .k = 33},
      {.batch = 1, .n = 1'000'003, .k = 1},
      {.batch = 1, .n = 1'000'003, .k = 1'000'003},
      {.batch = 2, .n = 1'000'003, .k = 2048},
      {.batch = 3, .n = 131'072, .k = 131'071},
      {.batch = 64, .n = 131'072, .k = 2048},
      {.batch = 133, .n = 50'000, .k = 2048},
      {.batch = 300, .n = 16'385, .k = 64},
      {.batch = 133, .n = 16'384, .k = 4097},
      {.batch = 300, .n = 8192, .k = 8192},
      {.batch = 1024, .n = 4096, .k = 2048},
      {.batch = 1024, .n = 3072, .k = 1},
      {.batch = 1, .n = 4'000'001, .k = 4097},
  };
  std::vector<SelectCase> cases;
  for (const Shape& corner : kCorners) {
    for (const Input input : {Input::kNormal, Input::kTwoValues, Input::kRandomBits}) {
      cases.push_back(Placed(corner, random.OneOf<ScoreType>(kScoreTypes), input, random));
    }
  }
  return cases;
}

std::vector<SelectCase> SampledCases(int count, Random& random) {
  constexpr int64_t kBatches[] = {1, 2, 3, 8, 64, 133, 300, 1024};
  constexpr int64_t kLengths[] = {1,    2,      31,     32,     33,      127,
                                  1000, 1024,   3072,   4095,   4096,    4097,
                                  8192, 16'384, 16'385, 50'000, 131'072, 1'000'003};
  // Values of k. Those that are not above 0 are relative to n.
  constexpr int64_t kValues[] = {1,   2,   8,    31,   32,   33,   64,   100,  128,  129, 256,
                                 512, 513, 1000, 1024, 1025, 2048, 2049, 4096, 4097, -1,  0};
  std::vector<SelectCase> cases;
  while (cases.size() < static_cast<size_t>(count)) {
    const int64_t n = random.OneOf<int64_t>(kLengths);
    const int64_t batch = random.OneOf<int64_t>(kBatches);
    const int64_t value = random.OneOf<int64_t>(kValues);
    const int64_t k = std::clamp<int64_t>(value > 0 ? value : n + value, 1, n);
    if (batch * n > kSampledScoresMax) continue;
    cases.push_back(PlacedAtRandom({.batch = batch, .n = n, .k = k}, random));
    if (cases.back().stride == 0 && random.OneIn(8)) cases.back().shape.column_stride = 2;
  }
  return cases;
}

std::vector<SelectCase> RaggedCases(int count, Random& random) {
  constexpr int64_t kBatches[] = {1, 2, 3, 8, 60, 100, 133, 300, 1024};
  constexpr int64_t kLengths[] = {1, 33, 1000, 3072, 4097, 16'385, 50'000, 131'072, 1'000'003};
  constexpr int64_t kValues[] = {1, 8, 32, 33, 100, 256, 512, 1024, 2048, 2049, 4097};
  std::vector<SelectCase> cases;
  while (cases.size() < static_cast<size_t>(count)) {
    const int64_t n = random.OneOf<int64_t>(kLengths);
    const int64_t batch = random.OneOf<int64_t>(kBatches);
    if (batch * n > kSampledScoresMax) continue;
    const int64_t k = std::min(random.OneOf<int64_t>(kValues), n);
    SelectCase problem = PlacedAtRandom({.batch = batch, .n = n, .k = k}, random);
    GiveBounds(problem, random);
    cases.push_back(std::move(problem));
  }
  return cases;
}

std::vector<SelectCase> SmokeCases(Random& random) {
  std::vector<SelectCase> cases;
  for (const Input input : {Input::kNormal, Input::kAllEqual, Input::kTwoValues}) {
    for (const ScoreType type : kScoreTypes) {
      for (const Shape& shape :
           {Shape{.batch = 3, .n = 33, .k = 33}, Shape{.batch = 2, .n = 5000, .k = 1},
            Shape{.batch = 2, .n = 5000, .k = 100}, Shape{.batch = 1, .n = 70'001, .k = 2048}}) {
        cases.push_back(Placed(shape, type, input, random));
      }
    }
  }
  for (const Shape& shape :
       {Shape{.batch = 5, .n = 3000, .k = 64}, Shape{.batch = 3, .n = 70'001, .k = 100},
        Shape{.batch = 140, .n = 5000, .k = 300}}) {
    for (int number = 0; number < 4; ++number) {
      SelectCase problem = PlacedAtRandom(shape, random);
      GiveBounds(problem, random);
      cases.push_back(std::move(problem));
    }
  }
  // Too many rows for one that has a device to itself, too few for a block each.
  SelectCase between = PlacedAtRandom({.batch = 70, .n = 40'000, .k = 100}, random);
  GiveBounds(between, random);
  cases.push_back(std::move(between));
  return cases;
}

}  // namespace nearfield::select

#include "tests/engine/topk/kit/select_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/score/row_types.h"

namespace nearfield::select {
namespace {

using testing::Random;

constexpr int64_t kMarginBytes = 256;
constexpr int64_t kTiesMax = 5000;

// Returns the number of distinct values that a row repeats; 0 if it draws each score separately.
int64_t RepeatedValues(Input input) {
  switch (input) {
    case Input::kAllEqual: return 1;
    case Input::kTwoValues: return 2;
    case Input::kFewDistinct: return 7;
    case Input::kPeriod32: return 32;
    case Input::kPeriod64: return 64;
    case Input::kPeriod4096: return 4096;
    default: return 0;
  }
}

// Makes the scores of one row, as bits.
class RowMaker {
 public:
  RowMaker(const SelectCase& problem, int64_t row)
      : shape_(problem.shape),
        input_(problem.input),
        format_(FormatOf(problem.shape.type)),
        random_(testing::Scramble(problem.seed + static_cast<uint64_t>(row) * 0x9e3779b9u)),
        share_(random_.OneIn(2) ? 2 : 100),
        special_(random_.Between(0, shape_.n)),
        begin_(random_.Between(0, shape_.n - shape_.k + 1)) {
    for (int64_t i = 0; i < RepeatedValues(input_); ++i) repeated_.push_back(Normal());
  }

  std::vector<uint32_t> Make() {
    std::vector<uint32_t> bits(static_cast<size_t>(shape_.n));
    for (int64_t i = 0; i < shape_.n; ++i) bits[static_cast<size_t>(i)] = Score(i);
    if (input_ == Input::kTiesAtTheThreshold) random_.Shuffle(bits);
    return bits;
  }

 private:
  uint32_t Encode(float finite) const {
    if (shape_.type == RowType::kFloat16) return score::HalfBitsFromFloat(finite);
    if (shape_.type == RowType::kBFloat16) return score::Bfloat16BitsFromFloat(finite);
    return std::bit_cast<uint32_t>(finite);
  }
  uint32_t Normal() { return Encode(random_.Gaussian()); }
  uint32_t Uniform(float begin) { return Encode(begin + static_cast<float>(random_.Unit())); }
  uint32_t OneBin() { return Encode(0.7f + 1e-4f * static_cast<float>(random_.Unit())); }
  uint32_t Sign() { return random_.OneIn(2) ? format_.sign() : 0; }
  uint32_t Magnitude(uint32_t begin, uint32_t end) {
    return static_cast<uint32_t>(random_.Between(begin, end));
  }
  uint32_t Nan() { return Sign() | Magnitude(format_.infinity() + 1, format_.sign()); }
  bool Rare() { return random_.OneIn(share_); }

  // Returns the rank-th finite score above 0, or below 0 for a negative rank.
  uint32_t FromRank(int64_t rank) const {
    return rank < 0 ? format_.sign() | static_cast<uint32_t>(-rank) : static_cast<uint32_t>(rank);
  }

  uint32_t Score(int64_t i) {
    switch (input_) {
      case Input::kUniform: return Uniform(0.0f);
      case Input::kAllEqual:
      case Input::kPeriod32:
      case Input::kPeriod64:
      case Input::kPeriod4096: return repeated_[static_cast<size_t>(i) % repeated_.size()];
      case Input::kTwoValues: return repeated_[Rare() ? 1 : 0];
      case Input::kFewDistinct: return random_.OneOf<uint32_t>(repeated_);
      case Input::kOneBin: return OneBin();
      case Input::kOneUlpApart: return Encode(1.0f) + Magnitude(0, 5);
      case Input::kHeavyTailed: return Encode(std::exp(random_.Gaussian()));
      case Input::kRandomBits:
        return static_cast<uint32_t>(random_.Bits()) & (format_.sign() | (format_.sign() - 1));
      case Input::kZeros:
      case Input::kDenormals:
      case Input::kInfinities:
      case Input::kAllMinusInfinity:
      case Input::kFewNans:
      case Input::kHalfNans:
      case Input::kAllNans:
      case Input::kMaxFinite: return SpecialScore(i);
      case Input::kNormal: return Normal();
      default: return PlacedScore(i);
    }
  }

  // Returns a score of an input made of the extremes of the format.
  uint32_t SpecialScore(int64_t i) {
    const uint32_t least_normal = uint32_t{1} << format_.mantissa_bits;
    const uint32_t minus_infinity = format_.sign() | format_.infinity();
    switch (input_) {
      case Input::kZeros: return Sign() | (random_.OneIn(50) ? Magnitude(0, least_normal * 2) : 0);
      case Input::kDenormals: return Sign() | Magnitude(0, least_normal);
      case Input::kInfinities: return Rare() ? Sign() | format_.infinity() : Normal();
      case Input::kAllMinusInfinity:
        return share_ == 2 && special_ % 2 == 0 && i == special_ ? Normal() : minus_infinity;
      case Input::kFewNans: return random_.OneIn(100) ? Nan() : Normal();
      case Input::kHalfNans: return random_.OneIn(2) ? Nan() : Normal();
      case Input::kAllNans: return Nan();
      default:
        return Rare() ? Normal() : Sign() | Magnitude(format_.infinity() - 3, format_.infinity());
    }
  }

  // Returns a score of an input in which the place of a score matters.
  uint32_t PlacedScore(int64_t i) {
    const int64_t greatest = format_.infinity() - 1;
    const int64_t step = shape_.n > 1 ? 2 * greatest * i / (shape_.n - 1) : 0;
    const auto best_from = [&](int64_t begin) {
      return Uniform(begin <= i && i < begin + shape_.k ? 2.0f : 0.0f);
    };
    switch (input_) {
      case Input::kSortedUp: return FromRank(step - greatest);
      case Input::kSortedDown: return FromRank(greatest - step);
      case Input::kTiesAtTheThreshold:  // shuffled afterwards
        if (i < shape_.k / 2) return Uniform(2.0f);
        return i - shape_.k / 2 < kTiesMax ? Encode(1.5f) : Uniform(0.0f);
      case Input::kOneOutlier: return i == special_ ? FromRank(greatest) : OneBin();
      case Input::kBestTogether: return best_from(begin_);
      case Input::kBestAtTheEnd: return best_from(shape_.n - shape_.k);
      case Input::kBestAtTheStart: return best_from(0);
      default:  // kClustered
        if (i % 32 == 0) level_ = random_.Gaussian();
        return Encode(level_ + 1e-3f * random_.Gaussian());
    }
  }

  const Shape shape_;
  const Input input_;
  const ScoreFormat format_;
  Random random_;
  const int64_t share_;    // in inputs of two kinds: one score in share_ is of the second
  const int64_t special_;  // a place in the row
  const int64_t begin_;    // first of the k best, if they are contiguous
  float level_ = 0.0f;
  std::vector<uint32_t> repeated_;
};

}  // namespace

const char* NameOf(Input input) {
  for (const NamedInput& named : kInputs) {
    if (named.input == input) return named.name;
  }
  return "?";
}

std::string Describe(const SelectCase& problem) {
  return absl::StrCat(FormatOf(problem.shape.type).name, ", batch ", problem.shape.batch, ", n ",
                      problem.shape.n, ", k ", problem.shape.k, ", ", NameOf(problem.input),
                      ", seed ", problem.seed, ", stride ", problem.stride, ", offsets ",
                      problem.scores_offset, "/", problem.values_offset, "/",
                      problem.indices_offset, problem.margin_behind ? "" : ", no margin");
}

HostScores::HostScores(const SelectCase& problem)
    : score_bytes_(FormatOf(problem.shape.type).bytes),
      stride_(problem.stride == 0 ? problem.shape.n : problem.stride),
      begin_(kMarginBytes + problem.scores_offset * score_bytes_) {
  const int64_t end = RowBegin(problem.shape.batch - 1) + problem.shape.n * score_bytes_;
  image_.resize(static_cast<size_t>(end + (problem.margin_behind ? kMarginBytes : 0)));
  const ScoreFormat format = FormatOf(problem.shape.type);
  for (size_t at = 0; at < image_.size(); at += static_cast<size_t>(format.bytes)) {
    StoreScore(problem.shape.type, image_.data() + at, 0, format.infinity());
  }
}

HostScores MakeScores(const SelectCase& problem) {
  HostScores scores(problem);
  ForEach(problem.shape.batch, [&](int64_t row) {
    const std::vector<uint32_t> bits = RowMaker(problem, row).Make();
    for (int64_t i = 0; i < problem.shape.n; ++i) {
      StoreScore(problem.shape.type, scores.Row(row), i, bits[static_cast<size_t>(i)]);
    }
  });
  return scores;
}

namespace {

// Returns a case with a random seed. Two of three have random offsets, and may have gaps between
// rows.
SelectCase Placed(Shape shape, RowType type, Input input, Random& random) {
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
  return Placed(shape, random.OneOf<RowType>(kScoreTypes), random.OneOf<NamedInput>(kInputs).input,
                random);
}

}  // namespace

std::vector<SelectCase> EveryInputCases(const Shape& shape, Random& random) {
  std::vector<SelectCase> cases;
  for (const NamedInput& named : kInputs) {
    for (const RowType type : kScoreTypes) {
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
      cases.push_back(Placed(corner, random.OneOf<RowType>(kScoreTypes), input, random));
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
  }
  return cases;
}

std::vector<SelectCase> SmokeCases(Random& random) {
  std::vector<SelectCase> cases;
  for (const Input input : {Input::kNormal, Input::kAllEqual, Input::kTwoValues}) {
    for (const RowType type : kScoreTypes) {
      for (const Shape& shape :
           {Shape{.batch = 3, .n = 33, .k = 33}, Shape{.batch = 2, .n = 5000, .k = 1},
            Shape{.batch = 2, .n = 5000, .k = 100}, Shape{.batch = 1, .n = 70'001, .k = 2048}}) {
        cases.push_back(Placed(shape, type, input, random));
      }
    }
  }
  return cases;
}

}  // namespace nearfield::select

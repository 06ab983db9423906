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
      : shape_(ShapeOf(problem, row)),
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
  // Returns the shape of the row alone, which has a score.
  static Shape ShapeOf(const SelectCase& problem, int64_t row) {
    Shape shape = problem.shape;
    shape.n = SpanOf(problem, row).size;
    shape.k = std::min(shape.k, shape.n);
    return shape;
  }

  uint32_t Encode(float finite) const {
    if (IsInteger(shape_.type)) {
      return FromInteger(std::lrint(std::clamp(finite, -2000.0f, 2000.0f) * 1e6f));
    }
    if (shape_.type == ScoreType::kFloat16) return score::HalfBitsFromFloat(finite);
    if (shape_.type == ScoreType::kBFloat16) return score::Bfloat16BitsFromFloat(finite);
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

  // Returns an integer score, that many above the middle of its type.
  uint32_t FromInteger(int64_t value) const {
    return static_cast<uint32_t>(value) ^ (shape_.type == ScoreType::kUint32 ? 0x80000000u : 0);
  }

  // Returns the rank-th finite score above 0, or below 0 for a negative rank.
  uint32_t FromRank(int64_t rank) const {
    if (IsInteger(shape_.type)) return FromInteger(rank);
    return rank < 0 ? format_.sign() | static_cast<uint32_t>(-rank) : static_cast<uint32_t>(rank);
  }

  uint32_t Score(int64_t i) {
    if (NeedsAFloat(input_)) return SpecialScore(i);
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

bool NeedsAFloat(Input input) {
  switch (input) {
    case Input::kZeros:
    case Input::kDenormals:
    case Input::kInfinities:
    case Input::kAllMinusInfinity:
    case Input::kFewNans:
    case Input::kHalfNans:
    case Input::kAllNans:
    case Input::kMaxFinite: return true;
    default: return false;
  }
}

std::string Describe(const SelectCase& problem) {
  return absl::StrCat(
      FormatOf(problem.shape.type).name, ", batch ", problem.shape.batch, ", n ", problem.shape.n,
      ", k ", problem.shape.k, ", ", NameOf(problem.input), ", seed ", problem.seed, ", stride ",
      problem.stride, ", offsets ", problem.scores_offset, "/", problem.values_offset, "/",
      problem.indices_offset, problem.margin_behind ? "" : ", no margin",
      problem.row_begin.empty() ? "" : ", begins", problem.row_end.empty() ? "" : ", ends",
      ", column stride ", problem.shape.column_stride);
}

HostScores::HostScores(const SelectCase& problem)
    : score_bytes_(FormatOf(problem.shape.type).bytes),
      stride_(problem.stride == 0 ? problem.shape.n * problem.shape.column_stride : problem.stride),
      column_stride_(problem.shape.column_stride),
      begin_(kMarginBytes + problem.scores_offset * score_bytes_) {
  int64_t end = begin_;
  for (int64_t row = 0; row < problem.shape.batch; ++row) {
    const RowSpan span = SpanOf(problem, row);
    if (span.size == 0) continue;
    end = std::max(end, ByteOf(row, span.begin + span.size - 1) + score_bytes_);
  }
  image_.resize(static_cast<size_t>(end + (problem.margin_behind ? kMarginBytes : 0)));
  for (size_t at = 0; at < image_.size(); at += static_cast<size_t>(score_bytes_)) {
    StoreScore(problem.shape.type, image_.data() + at, 0, BestBits(problem.shape.type));
  }
}

RowSpan SpanOf(const SelectCase& problem, int64_t row) {
  const auto at = static_cast<size_t>(row);
  const int64_t begin = problem.row_begin.empty() ? 0 : std::max<int64_t>(problem.row_begin[at], 0);
  const int64_t end = problem.row_end.empty() ? problem.shape.n : problem.row_end[at];
  return {begin, std::clamp<int64_t>(end - begin, 0, problem.shape.n)};
}

HostScores MakeScores(const SelectCase& problem) {
  HostScores scores(problem);
  ForEach(problem.shape.batch, [&](int64_t row) {
    const RowSpan span = SpanOf(problem, row);
    if (span.size == 0) return;
    const std::vector<uint32_t> bits = RowMaker(problem, row).Make();
    for (int64_t i = 0; i < span.size; ++i) {
      StoreScore(problem.shape.type, scores.At(row, span.begin + i), 0,
                 bits[static_cast<size_t>(i)]);
    }
  });
  return scores;
}

Answer OracleAnswer(const SelectCase& problem, const HostScores& scores) {
  const ScoreType type = problem.shape.type;
  const int64_t k = problem.shape.k;
  Answer all;
  all.values.assign(static_cast<size_t>(problem.shape.batch * k), WorstBits(type));
  all.indices.assign(all.values.size(), 0xffffffffu);
  ForEach(problem.shape.batch, [&](int64_t row) {
    const RowSpan span = SpanOf(problem, row);
    std::vector<char> dense(static_cast<size_t>(span.size * FormatOf(type).bytes));
    for (int64_t i = 0; i < span.size; ++i) {
      StoreScore(type, dense.data(), i, LoadScore(type, scores.At(row, span.begin + i), 0));
    }
    const Answer best = SelectRow(type, dense.data(), span.size, std::min(k, span.size));
    std::copy(best.values.begin(), best.values.end(), all.values.begin() + row * k);
    std::copy(best.indices.begin(), best.indices.end(), all.indices.begin() + row * k);
  });
  return all;
}

}  // namespace nearfield::select

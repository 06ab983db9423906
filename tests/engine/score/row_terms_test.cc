// Tests of row terms and final scores: golden values of a script that shares no code with the
// engine (tests/golden/make_term_golden.py), and the laws that a certified scan rests on.
#include "engine/score/row_terms.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::score::terms {
namespace {

using testing::Random;
using testing::TestSeed;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr float kFloatMax = std::numeric_limits<float>::max();

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

struct GoldenTerm {
  TermParameters parameters;
  double number = 0;
  double value = 0;
};

struct GoldenFinal {
  std::string name;
  double score_weight = 0;
  float s = 0;
  double t = 0;
  float final = 0;
  std::vector<GoldenTerm> terms;
};

double FromHex(const std::string& digits) {
  return DoubleFromBits(std::stoull(digits, nullptr, 16));
}
float FloatFromHex(const std::string& digits) {
  return FloatFromBits(static_cast<uint32_t>(std::stoul(digits, nullptr, 16)));
}

GoldenTerm ParseTerm(const std::string& text) {
  static const std::map<std::string, TermForm> kForms = {{"linear", TermForm::kLinear},
                                                         {"clamped", TermForm::kClamped},
                                                         {"half_life", TermForm::kHalfLife},
                                                         {"is", TermForm::kIs}};
  std::istringstream fields(text);
  std::string form;
  std::getline(fields, form, ',');
  const auto next = [&fields] {
    std::string digits;
    std::getline(fields, digits, ',');
    return FromHex(digits);
  };
  GoldenTerm term;
  TermParameters& p = term.parameters;
  p.form = kForms.at(form);
  for (double* field : {&p.weight, &p.origin, &p.scale, &p.low, &p.high, &p.offset, &p.missing,
                        &term.number, &term.value}) {
    *field = next();
  }
  return term;
}

std::vector<GoldenFinal> ReadGolden() {
  std::ifstream file(NEARFIELD_TERMS_GOLDEN_FILE);
  EXPECT_TRUE(file.good()) << NEARFIELD_TERMS_GOLDEN_FILE << ": cannot be read";
  std::vector<GoldenFinal> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    GoldenFinal golden;
    std::string weight, s, t, final, term;
    fields >> golden.name >> weight >> s >> t >> final;
    golden.score_weight = FromHex(weight);
    golden.s = FloatFromHex(s);
    golden.t = FromHex(t);
    golden.final = FloatFromHex(final);
    while (fields >> term) golden.terms.push_back(ParseTerm(term));
    cases.push_back(std::move(golden));
  }
  return cases;
}

TEST(RowTermsGolden, EveryTermSumAndFinalScoreHasTheSameBits) {
  const std::vector<GoldenFinal> cases = ReadGolden();
  EXPECT_GE(cases.size(), 700u);
  for (const GoldenFinal& golden : cases) {
    SCOPED_TRACE(golden.name);
    TermSum sum;
    for (const GoldenTerm& term : golden.terms) {
      const double value = TermOf(term.parameters, term.number);
      EXPECT_EQ(Bits(value), Bits(term.value));
      sum.Add(value);
    }
    EXPECT_EQ(Bits(sum.value()), Bits(golden.t));
    EXPECT_EQ(BitsFromFloat(FinalScore(golden.score_weight, golden.s, sum.value())),
              BitsFromFloat(golden.final));
  }
}

// Returns any finite number of at most this magnitude, of any exponent.
double AnyFinite(Random& random, double most = kFiniteMax) {
  for (;;) {
    const double value = DoubleFromBits(random.Bits());
    if (std::abs(value) <= most) return value;
  }
}

double AnyNumber(Random& random) {
  switch (random.Between(0, 6)) {
    case 0: return random.OneIn(2) ? kInfinity : -kInfinity;
    case 1: return kNaN;
    case 2: return static_cast<double>(static_cast<int64_t>(random.Bits()));
    case 3: return random.OneIn(2) ? kFiniteMax : -kFiniteMax;
    case 4: return 1.7e15 + static_cast<double>(random.Between(0, int64_t{1} << 50));
    default: return AnyFinite(random);
  }
}

double Small(Random& random) {
  return (random.Unit() - 0.5) * std::ldexp(1.0, static_cast<int>(random.Between(-5, 30)));
}

TermParameters AnyTerm(Random& random) {
  const bool wild = random.OneIn(2);
  const auto draw = [&](double most) { return wild ? AnyFinite(random, most) : Small(random); };
  TermParameters term;
  term.form = static_cast<TermForm>(random.Between(1, 5));
  term.weight = draw(kTermParameterMax);
  term.origin = wild ? AnyFinite(random) : Small(random);
  term.scale = draw(kTermParameterMax);
  term.low = draw(kFiniteMax);
  term.high = draw(kFiniteMax);
  if (term.low > term.high) std::swap(term.low, term.high);
  term.missing = draw(kTermParameterMax);
  if (term.form == TermForm::kHalfLife) {
    term.scale = std::abs(term.scale);
    term.offset = std::abs(draw(kFiniteMax));
  }
  return term;
}

double NumberFor(const TermParameters& term, Random& random) {
  if (term.form == TermForm::kIs) return random.OneIn(2) ? 1.0 : 0.0;
  return random.OneIn(2) ? AnyNumber(random) : term.origin + Small(random);
}

// Returns any score: not NaN, never -0.
float AnyScore(Random& random) {
  for (;;) {
    const float score = FloatFromBits(static_cast<uint32_t>(random.Bits()));
    if (!std::isnan(score))
      return random.OneIn(3) ? static_cast<float>(Small(random)) + 0.0f : score + 0.0f;
  }
}

double AnySum(Random& random) {
  TermSum sum;
  const int64_t count = random.Between(0, static_cast<int64_t>(kTermsMax) + 1);
  for (int64_t i = 0; i < count; ++i) {
    const TermParameters term = AnyTerm(random);
    sum.Add(TermOf(term, NumberFor(term, random)));
  }
  return sum.value();
}

double AnyWeight(Random& random) {
  const double weight =
      std::abs(random.OneIn(2) ? Small(random) : AnyFinite(random, kTermParameterMax));
  return weight > 0 ? weight : 1.0;
}

TEST(RowTerms, PowersErrByAtMostOneUnitInTheLastPlace) {
  static_assert(LDBL_MANT_DIG >= 64);
  Random random(TestSeed());
  for (int i = 0; i < 300'000; ++i) {
    const double x = -random.Unit() * std::ldexp(1.0, static_cast<int>(random.Between(-60, 11)));
    if (x < -1021.0) continue;
    const double got = Exp2(x);
    const long double exact = std::exp2(static_cast<long double>(x));
    const double ulp =
        std::nextafter(static_cast<double>(exact), kInfinity) - static_cast<double>(exact);
    ASSERT_LE(std::abs(static_cast<double>(static_cast<long double>(got) - exact)), ulp) << x;
  }
}

TEST(RowTerms, PowersOfIntegersAreExactAndTheSmallestAreZero) {
  for (int n = 0; n <= 1022; ++n) EXPECT_EQ(Exp2(-n), std::ldexp(1.0, -n)) << n;
  EXPECT_EQ(Exp2(std::nextafter(-1022.0, -2000.0)), 0.0);
  EXPECT_EQ(Exp2(-kFiniteMax), 0.0);
  EXPECT_EQ(Exp2(-kInfinity), 0.0);
  EXPECT_EQ(Exp2(-0.0), 1.0);
}

TEST(RowTerms, TheSumIsFiniteForEveryRow) {
  Random random(TestSeed());
  for (int i = 0; i < 100'000; ++i) {
    const TermParameters term = AnyTerm(random);
    const double number = NumberFor(term, random);
    ASSERT_LE(std::abs(TermOf(term, number)), 0x1p160) << number;
  }
  TermSum sum;
  const TermParameters largest = {.weight = kTermParameterMax, .scale = kTermParameterMax};
  for (size_t i = 0; i < kTermsMax; ++i) sum.Add(TermOf(largest, kFiniteMax));
  EXPECT_TRUE(std::isfinite(sum.value()));
}

TEST(RowTerms, ARowWithoutANumberGetsTheMissingValue) {
  for (const TermForm form : {TermForm::kLinear, TermForm::kClamped, TermForm::kHalfLife}) {
    const TermParameters term = {
        .form = form, .weight = 3.0, .low = -1.0, .high = 1.0, .missing = 0.25};
    for (const double number : {kNaN, -kNaN, kInfinity, -kInfinity}) {
      EXPECT_EQ(TermOf(term, number), 0.75);
    }
  }
}

TEST(RowTerms, TermsAreAddedInTheirOrder) {
  TermSum sum;
  for (const double term : {0x1p60, -0x1p60, 1.0}) sum.Add(term);
  EXPECT_EQ(sum.value(), 1.0);
  TermSum other;
  for (const double term : {1.0, 0x1p60, -0x1p60}) other.Add(term);
  EXPECT_EQ(other.value(), 0.0);
  EXPECT_EQ(TermSum().value(), 0.0);
}

TEST(FinalScore, NeverDecreasesWhenTheScoreGrows) {
  Random random(TestSeed());
  for (int i = 0; i < 200'000; ++i) {
    const double weight = AnyWeight(random);
    const double t = AnySum(random);
    float low = AnyScore(random);
    float high = random.OneIn(2)
                     ? std::nextafter(low, std::numeric_limits<float>::infinity()) + 0.0f
                     : AnyScore(random);
    if (low > high) std::swap(low, high);
    const float of_low = FinalScore(weight, low, t);
    const float of_high = FinalScore(weight, high, t);
    ASSERT_FALSE(std::isnan(of_low));
    ASSERT_NE(BitsFromFloat(of_low), 0x80000000u);
    ASSERT_LE(of_low, of_high) << weight << " " << t << " " << low << " " << high;
    ASSERT_LE(of_low, FinalUpper(weight, high, t));
    ASSERT_GE(of_high, FinalLower(weight, low, t));
  }
}

TEST(FinalScore, OfABoundThatSaysNothingBoundsEveryScore) {
  Random random(TestSeed());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 1'000; ++i) {
    const double weight = AnyWeight(random);
    const double t = AnySum(random);
    EXPECT_EQ(FinalUpper(weight, nan, t), std::numeric_limits<float>::infinity());
    EXPECT_EQ(FinalLower(weight, nan, t), MinusInfinity());
  }
}

TEST(FinalScore, AScoreBelowTheOneToReachDoesNotReachTheThreshold) {
  Random random(TestSeed());
  for (int i = 0; i < 200'000; ++i) {
    const double weight = AnyWeight(random);
    const double t = random.OneIn(3) ? 0.0 : AnySum(random);
    // Half of the thresholds are final scores.
    const float threshold =
        random.OneIn(2) ? AnyScore(random) : FinalScore(weight, AnyScore(random), t);
    const float reach = ScoreToReach(weight, t, threshold);
    ASSERT_FALSE(std::isnan(reach));
    ASSERT_NE(BitsFromFloat(reach), 0x80000000u);
    for (const float s : {std::nextafter(reach, MinusInfinity()) + 0.0f, AnyScore(random)}) {
      if (!(s < reach)) continue;
      ASSERT_LT(FinalScore(weight, s, t), threshold) << weight << " " << t << " " << s;
    }
    // It is not much too low: by less than 2^-20 of each magnitude, or two denormals of a final
    // score.
    if (!std::isfinite(reach)) continue;
    const double magnitudes = std::abs(t) + std::abs(double{threshold}) + 0x1p-128;
    const double slack = (std::abs(double{reach}) + magnitudes / weight) * 0x1p-20;
    const double above = double{reach} + slack;
    if (!(std::abs(above) < double{kFloatMax}) || !std::isfinite(threshold)) continue;
    const float rounded_up = std::nextafter(static_cast<float>(above), kFloatMax);
    ASSERT_GE(FinalScore(weight, rounded_up, t), threshold) << weight << " " << t;
  }
}

TEST(FinalScore, EveryScoreReachesMinusInfinity) {
  EXPECT_EQ(ScoreToReach(1.0, -0x1p160, MinusInfinity()), MinusInfinity());
}

TEST(TermUpper, NoRowOfTheRangeHasALargerTerm) {
  Random random(TestSeed());
  for (int i = 0; i < 30'000; ++i) {
    const TermParameters term = AnyTerm(random);
    NumberRange range;
    std::vector<double> numbers;
    const int64_t count = random.Between(1, 6);
    const double step = std::abs(Small(random)) * 0x1p-40;
    for (int64_t n = 0; n < count; ++n) {
      numbers.push_back(numbers.empty() || random.OneIn(2) || term.form == TermForm::kIs
                            ? NumberFor(term, random)
                            : numbers.back() + step);
      range.Add(numbers.back());
    }
    const double upper = TermUpper(term, range);
    for (const double number : numbers) ASSERT_GE(upper, TermOf(term, number)) << number;
    // A number between two others of the range is in the range.
    if (term.form == TermForm::kIs || !(range.lowest < range.highest)) continue;
    const double inside = Clamp(range.lowest / 2 + range.highest / 2, range.lowest, range.highest);
    ASSERT_GE(upper, TermOf(term, inside)) << inside;
  }
}

TEST(RowNumbers, RangesHoldTheNumbersOfTheirRows) {
  Random random(TestSeed());
  std::vector<double> numbers(2'000);
  for (double& number : numbers) number = random.OneIn(400) ? kNaN : Small(random);
  const RowNumbers column(numbers);
  for (int i = 0; i < 2'000; ++i) {
    const auto first = static_cast<uint32_t>(random.Between(0, 2'300));
    const int64_t count = random.Between(1, 700);
    const NumberRange range = column.RangeOf(first, count);
    for (int64_t row = first; row < first + count; ++row) {
      const double number = column.at(static_cast<uint32_t>(row));
      if (IsNumber(number)) {
        ASSERT_LE(range.lowest, number);
        ASSERT_GE(range.highest, number);
      } else {
        ASSERT_TRUE(range.some_missing) << row;
      }
    }
  }
  // A range is not much wider than its rows: one of whole blocks is exact.
  const NumberRange block = column.RangeOf(256, 512);
  NumberRange exact;
  for (uint32_t row = 256; row < 768; ++row) exact.Add(column.at(row));
  EXPECT_EQ(block.lowest, exact.lowest);
  EXPECT_EQ(block.highest, exact.highest);
  EXPECT_EQ(block.some_missing, exact.some_missing);
  EXPECT_TRUE(column.RangeOf(1'999, 2).some_missing);
}

}  // namespace
}  // namespace nearfield::score::terms

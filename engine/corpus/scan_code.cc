#include "engine/corpus/scan_code.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace nearfield::corpus {
namespace {

constexpr double kCodeMax = 127.0;
constexpr double kUlp = 0x1p-53;

double GreatestMagnitude(absl::Span<const double> values) {
  double greatest = 0;
  for (const double value : values) greatest = std::max(greatest, std::fabs(value));
  return greatest;
}

// At least the norm: the sum of D squares and its root round by less than D + 2 units, and squares
// of tiny numbers may vanish, each less than 2^-1074.
double NormUp(absl::Span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  const auto terms = static_cast<double>(values.size());
  return (std::sqrt(sum) + std::sqrt(terms) * 0x1p-536) * (1.0 + (terms + 8.0) * kUlp);
}

// Codes of `values` in units of the scale returned; takes what they stand for off the values,
// exactly but for the last rounding. 0 where the values are too small for a scale, +inf where too
// great.
float TakeCodes(absl::Span<double> values, absl::Span<int8_t> codes) {
  const auto scale = static_cast<float>(GreatestMagnitude(values) / kCodeMax);
  const bool usable = scale > 0.0f && std::isfinite(scale);
  for (size_t i = 0; i < values.size(); ++i) {
    double code = 0.0;
    if (usable) {
      code = std::clamp(std::rint(values[i] / static_cast<double>(scale)), -kCodeMax, kCodeMax);
    }
    codes[i] = static_cast<int8_t>(code);
    if (usable) values[i] -= static_cast<double>(scale) * code;  // the product is exact
  }
  return scale;
}

// At least the norm of scale * codes. The sum is exact.
double CodeNormUp(float scale, absl::Span<const int8_t> codes) {
  int64_t sum = 0;
  for (const int8_t code : codes) sum += int64_t{code} * code;
  return static_cast<double>(scale) * std::sqrt(static_cast<double>(sum)) * (1.0 + 8.0 * kUlp);
}

}  // namespace

score::RowBound EncodeRow(const Rotation& rotation, absl::Span<const float> row,
                          absl::Span<int8_t> codes) {
  std::vector<double> work(row.begin(), row.end());
  rotation.RotateRow(absl::MakeSpan(work));
  score::RowBound bound;
  bound.scale = TakeCodes(absl::MakeSpan(work), codes);
  if (!std::isfinite(bound.scale)) {
    // No code can stand for it.
    bound.scale = 0.0f;
    bound.residual = std::numeric_limits<float>::infinity();
    return bound;
  }
  const double code_norm = CodeNormUp(bound.scale, codes);
  // What the code leaves out, in the space of the row: nothing is assumed of the way there.
  for (size_t i = 0; i < work.size(); ++i) work[i] = static_cast<double>(bound.scale) * codes[i];
  rotation.BringBackWithQuery(absl::MakeSpan(work));
  for (size_t i = 0; i < work.size(); ++i) work[i] = static_cast<double>(row[i]) - work[i];
  // Each difference rounds by 2^-53 of itself.
  const double residual = NormUp(work) * (1.0 + 4.0 * kUlp) + rotation.RelativeError() * code_norm;
  bound.residual = score::UpToFloat(residual);
  bound.norm = score::UpToFloat(code_norm);
  return bound;
}

score::QueryBound EncodeQuery(const Rotation& rotation, absl::Span<const float> query,
                              absl::Span<int8_t> first, absl::Span<int8_t> second) {
  std::vector<double> work(query.begin(), query.end());
  const double norm = NormUp(work);
  rotation.RotateQuery(absl::MakeSpan(work));
  const double rotated_norm = NormUp(work);
  score::QueryBound bound;
  bound.first_scale = TakeCodes(absl::MakeSpan(work), first);
  bound.second_scale = TakeCodes(absl::MakeSpan(work), second);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!std::isfinite(bound.first_scale) || !std::isfinite(bound.second_scale)) {
    std::fill(first.begin(), first.end(), int8_t{0});
    std::fill(second.begin(), second.end(), int8_t{0});
    return {0.0f, 0.0f, kInfinity, kInfinity};
  }
  const double first_norm = CodeNormUp(bound.first_scale, first);
  const double second_norm = CodeNormUp(bound.second_scale, second);
  // Taking codes off rounds each value twice, by 2^-53 of what was there.
  const double rest =
      NormUp(work) + rotation.RelativeError() * norm + 4.0 * kUlp * (rotated_norm + first_norm);
  const auto dimension = static_cast<double>(query.size());
  const double of_residual = norm * (1.0 + dimension * kUlp) * (1.0 + 0x1p-20);
  const double of_norm =
      (rest + 0x1p-21 * (first_norm + second_norm) + 2.0 * dimension * kUlp * norm) *
      (1.0 + 0x1p-20);
  bound.of_residual = score::UpToFloat(of_residual);
  bound.of_norm = score::UpToFloat(of_norm);
  return bound;
}

}  // namespace nearfield::corpus

#include "engine/bound/int8_code.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace nearfield::bound {
namespace {

// Lanes of sums and maxima, which processors compute in parallel.
constexpr size_t kLanes = 8;

double Squares(absl::Span<const double> values) {
  const double* const data = values.data();
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += data[i + lane] * data[i + lane];
  }
  for (; i < values.size(); ++i) sums[0] += data[i] * data[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double Norm(absl::Span<const double> values) {
  return NormUp(Squares(values), static_cast<int64_t>(values.size()));
}

double Magnitude(absl::Span<const double> values) {
  double most[kLanes] = {};
  const double* const data = values.data();
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = std::fabs(data[i + lane]);
      most[lane] = most[lane] > value ? most[lane] : value;
    }
  }
  for (; i < values.size(); ++i) most[0] = std::max(most[0], std::fabs(data[i]));
  return *std::max_element(most, most + kLanes);
}

// Writes the codes of `values` in units of the returned scale. Subtracts the decoded codes from
// `values`; only this subtraction rounds.
float TakeCodes(absl::Span<double> values, absl::Span<int8_t> codes) {
  const float scale = CodeScale(Magnitude(values));
  if (!(scale > 0.0f) || !std::isfinite(scale)) {
    std::fill(codes.begin(), codes.end(), int8_t{0});
    return scale;
  }
  const auto unit = static_cast<double>(scale);
  const double inverse = 1.0 / unit;
  double* const data = values.data();
  int8_t* const out = codes.data();
  for (size_t i = 0; i < values.size(); ++i) {
    const double code = CodeOf(data[i], inverse);
    out[i] = static_cast<int8_t>(static_cast<int32_t>(code));
    data[i] -= unit * code;  // the product is exact
  }
  return scale;
}

double CodeNorm(float scale, absl::Span<const int8_t> codes) {
  int64_t sum = 0;
  for (const int8_t code : codes) sum += int64_t{code} * code;
  return CodeNormUp(scale, sum);
}

// Returns the vector in fp64, divided by its norm for cosine unless the norm is 0.
std::vector<double> Widen(Metric metric, absl::Span<const float> vector) {
  std::vector<double> values(vector.begin(), vector.end());
  if (metric != Metric::kCosine) return values;
  const double norm = std::sqrt(Squares(values));
  for (double& value : values) value = norm > 0 ? value / norm : value;
  return values;
}

}  // namespace

RowBound EncodeRow(const Rotation& rotation, Metric metric, absl::Span<const float> row,
                   absl::Span<int8_t> codes) {
  const std::vector<double> values = Widen(metric, row);
  const double squares = Squares(values);
  std::vector<double> work = values;
  rotation.RotateRow(absl::MakeSpan(work));
  const float scale = TakeCodes(absl::MakeSpan(work), codes);
  if (metric == Metric::kCosine && squares == 0.0) {
    return {.residual = -std::numeric_limits<float>::infinity()};
  }
  // The residual of the code in the space of the row. Computing it there needs no assumption about
  // the accuracy of the rotation.
  for (size_t i = 0; i < work.size(); ++i) work[i] = static_cast<double>(scale) * codes[i];
  rotation.BringBackWithQuery(absl::MakeSpan(work));
  for (size_t i = 0; i < work.size(); ++i) work[i] = values[i] - work[i];
  return MakeRowBound(scale, Squares(work), CodeNorm(scale, codes), rotation.RelativeError(),
                      metric == Metric::kL2 ? squares : 0.0, rotation.dimension());
}

QueryBounds EncodeQuery(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                        absl::Span<int8_t> first, absl::Span<int8_t> second) {
  std::vector<double> work = Widen(metric, query);
  const bool l2 = metric == Metric::kL2;
  const double squares = Squares(work);
  QueryNorms norms = {.query = Norm(work)};
  rotation.RotateQuery(absl::MakeSpan(work));
  const float first_scale = TakeCodes(absl::MakeSpan(work), first);
  norms.without_first = Norm(work);
  norms.rest = norms.without_first;
  const auto bound_with = [&](float second_scale) {
    return MakeQueryBound(first_scale, second_scale, norms, rotation.RelativeError(), l2, squares,
                          rotation.dimension());
  };
  QueryBounds bounds;
  bounds.first_only = bound_with(0.0f);
  const float second_scale = TakeCodes(absl::MakeSpan(work), second);
  norms.rest = Norm(work);
  bounds.both = bound_with(second_scale);
  return bounds;
}

}  // namespace nearfield::bound

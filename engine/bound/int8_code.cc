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

// Writes the codes of `values`, at most code_max, in units of the returned scale. Subtracts the
// decoded codes from `values`; only this subtraction rounds.
template <typename Code>
float TakeCodes(absl::Span<double> values, absl::Span<Code> codes, double code_max = kCodeMax) {
  const float scale = CodeScale(Magnitude(values), code_max);
  if (!(scale > 0.0f) || !std::isfinite(scale)) {
    std::fill(codes.begin(), codes.end(), Code{0});
    return scale;
  }
  const auto unit = static_cast<double>(scale);
  const double inverse = 1.0 / unit;
  double* const data = values.data();
  Code* const out = codes.data();
  for (size_t i = 0; i < values.size(); ++i) {
    const double code = CodeOf(data[i], inverse, code_max);
    out[i] = static_cast<Code>(static_cast<int32_t>(code));
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

// A row that is being encoded.
class RowEncoding {
 public:
  RowEncoding(const Rotation& rotation, Metric metric, absl::Span<const float> row)
      : rotation_(rotation),
        metric_(metric),
        values_(Widen(metric, row)),
        squares_(Squares(values_)),
        rest_(values_),
        stands_for_(values_.size()) {
    rotation.RotateRow(absl::MakeSpan(rest_));
  }

  // Takes the next code and returns the bound of all codes that were taken.
  RowBound Take(absl::Span<int8_t> codes) {
    const float scale = TakeCodes(absl::MakeSpan(rest_), codes);
    if (metric_ == Metric::kCosine && squares_ == 0.0) {
      return {.residual = -std::numeric_limits<float>::infinity()};
    }
    for (size_t i = 0; i < codes.size(); ++i) {
      stands_for_[i] += static_cast<double>(scale) * codes[i];
    }
    // The residual of the codes in the space of the row. Computing it there needs no assumption
    // about the accuracy of the rotation.
    std::vector<double> residual = stands_for_;
    rotation_.BringBackWithQuery(absl::MakeSpan(residual));
    for (size_t i = 0; i < residual.size(); ++i) residual[i] = values_[i] - residual[i];
    code_norms_ += CodeNorm(scale, codes);
    return MakeRowBound(scale, Squares(residual), code_norms_, rotation_.RelativeError(),
                        metric_ == Metric::kL2 ? squares_ : 0.0, rotation_.dimension());
  }

 private:
  const Rotation& rotation_;
  const Metric metric_;
  const std::vector<double> values_;
  const double squares_;            // of values_
  std::vector<double> rest_;        // rotated values minus the codes
  std::vector<double> stands_for_;  // the sum of scale * codes
  double code_norms_ = 0.0;
};

// A query that is being encoded.
class QueryEncoding {
 public:
  QueryEncoding(const Rotation& rotation, Metric metric, absl::Span<const float> query)
      : rotation_(rotation), l2_(metric == Metric::kL2), values_(Widen(metric, query)) {
    squares_ = Squares(values_);
    norms_.query = Norm(values_);
    rotation.RotateQuery(absl::MakeSpan(values_));
    rest_ = values_;
  }

  // Takes the first code and returns the bound with it alone.
  QueryBound TakeFirst(absl::Span<int8_t> codes) {
    first_scale_ = TakeCodes(absl::MakeSpan(rest_), codes);
    norms_.without_first = Norm(rest_);
    return BoundWith(0.0f);
  }
  // Takes the second code and returns the bound with both. Requires: TakeFirst.
  QueryBound TakeSecond(absl::Span<int8_t> codes) {
    return BoundWith(TakeCodes(absl::MakeSpan(rest_), codes));
  }
  // Takes a code of the whole query and returns the bound with it alone.
  QueryBound TakeWhole(absl::Span<int16_t> codes, int32_t code_max) {
    rest_ = values_;
    first_scale_ = TakeCodes(absl::MakeSpan(rest_), codes, code_max);
    norms_.without_first = Norm(rest_);
    return BoundWith(0.0f);
  }

 private:
  QueryBound BoundWith(float second_scale) {
    norms_.rest = Norm(rest_);
    return MakeQueryBound(first_scale_, second_scale, norms_, rotation_.RelativeError(), l2_,
                          squares_, rotation_.dimension());
  }

  const Rotation& rotation_;
  const bool l2_;
  std::vector<double> values_;  // rotated
  std::vector<double> rest_;    // what the codes leave
  double squares_ = 0.0;        // of the query
  float first_scale_ = 0.0f;
  QueryNorms norms_;
};

}  // namespace

RowBound EncodeRow(const Rotation& rotation, Metric metric, absl::Span<const float> row,
                   absl::Span<int8_t> codes) {
  return RowEncoding(rotation, metric, row).Take(codes);
}

RowBounds EncodeRowTwice(const Rotation& rotation, Metric metric, absl::Span<const float> row,
                         absl::Span<int8_t> first, absl::Span<int8_t> second) {
  RowEncoding encoding(rotation, metric, row);
  RowBounds bounds;
  bounds.first = encoding.Take(first);
  bounds.both = encoding.Take(second);
  return bounds;
}

QueryBounds EncodeQuery(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                        absl::Span<int8_t> first, absl::Span<int8_t> second) {
  QueryEncoding encoding(rotation, metric, query);
  QueryBounds bounds;
  bounds.first_only = encoding.TakeFirst(first);
  bounds.both = encoding.TakeSecond(second);
  return bounds;
}

QueryBounds EncodeQueryWhole(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                             absl::Span<int8_t> first, absl::Span<int16_t> whole,
                             int32_t whole_max) {
  QueryEncoding encoding(rotation, metric, query);
  QueryBounds bounds;
  if (!first.empty()) bounds.first_only = encoding.TakeFirst(first);
  bounds.both = encoding.TakeWhole(whole, whole_max);
  return bounds;
}

}  // namespace nearfield::bound

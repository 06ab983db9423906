// Queries and names for tests/testing/corpora.h.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/score/score.h"
#include "tests/testing/corpora.h"

namespace nearfield::testing {
namespace {

std::vector<float> SomeRow(const Corpus& corpus, Random& random) {
  return Decode(corpus.spec, corpus.row(random.Between(0, corpus.rows_count())));
}

// Returns the error that remains when the row is stored as int8 with one scale.
std::vector<float> Residual(std::vector<float> row) {
  float greatest = 0.0f;
  for (const float value : row) greatest = std::max(greatest, std::fabs(value));
  const float scale = greatest / 127.0f;
  for (float& value : row) {
    if (scale > 0.0f) value -= scale * std::round(value / scale);
    if (!std::isfinite(value)) value = 1.0f;
  }
  return row;
}

std::vector<float> Elements(const Corpus& corpus, QueryFamily family, Random& random) {
  const bool needs_row = family == QueryFamily::kRow || family == QueryFamily::kOppositeRow ||
                         family == QueryFamily::kResidual;
  if (needs_row && corpus.rows_count() > 0) {
    std::vector<float> row = SomeRow(corpus, random);
    if (family == QueryFamily::kResidual) return Residual(std::move(row));
    if (family == QueryFamily::kOppositeRow)
      std::for_each(row.begin(), row.end(), [](float& value) { value = -value; });
    return row;
  }
  std::vector<float> query(static_cast<size_t>(corpus.spec.dim));
  for (float& value : query) {
    const auto word = static_cast<uint32_t>(random.Bits());
    const uint32_t sign = word & 0x80000000u;
    switch (family) {
      case QueryFamily::kDenormal: value = score::FloatFromBits(sign | (word & 0x7fffffu)); break;
      case QueryFamily::kMaxFinite: value = score::FloatFromBits(sign | 0x7f7fffffu); break;
      case QueryFamily::kBitPatterns:
        value = score::FloatFromBits(sign | ((word & 0x7fffffffu) % 0x7f800000u));
        break;
      case QueryFamily::kOneHot: value = 0.0f; break;
      case QueryFamily::kMinusZero: value = -0.0f; break;
      default: value = random.Gaussian();
    }
  }
  if (family == QueryFamily::kOneHot)
    query[static_cast<size_t>(random.Between(0, corpus.spec.dim))] = 1.0f;
  return query;
}

}  // namespace

std::vector<float> MakeQuery(const Corpus& corpus, QueryFamily family, Random& random) {
  std::vector<float> query = Elements(corpus, family, random);
  const bool all_zero =
      std::all_of(query.begin(), query.end(), [](float value) { return value == 0.0f; });
  if (all_zero && corpus.spec.metric == Metric::kCosine)
    query[static_cast<size_t>(random.Between(0, corpus.spec.dim))] = -1.0f;
  return query;
}

const char* Name(CorpusFamily family) {
  switch (family) {
    case CorpusFamily::kGaussian: return "gaussian";
    case CorpusFamily::kClustered: return "clustered";
    case CorpusFamily::kDuplicates: return "duplicates";
    case CorpusFamily::kAllEqual: return "all equal";
    case CorpusFamily::kTwoValues: return "two values";
    case CorpusFamily::kOneHot: return "one-hot";
    case CorpusFamily::kDenormal: return "denormal";
    case CorpusFamily::kMaxFinite: return "max finite";
    case CorpusFamily::kBitPatterns: return "bit patterns";
    case CorpusFamily::kNegative: return "negative";
    case CorpusFamily::kNearTies: return "near-ties";
    case CorpusFamily::kZeroRows: return "zero rows";
    case CorpusFamily::kAllZero: return "all zero";
    case CorpusFamily::kOutliers: return "outlier dimensions";
  }
  return "?";
}

const char* Name(QueryFamily family) {
  switch (family) {
    case QueryFamily::kGaussian: return "gaussian";
    case QueryFamily::kRow: return "row";
    case QueryFamily::kOppositeRow: return "opposite row";
    case QueryFamily::kResidual: return "residual";
    case QueryFamily::kDenormal: return "denormal";
    case QueryFamily::kMaxFinite: return "max finite";
    case QueryFamily::kBitPatterns: return "bit patterns";
    case QueryFamily::kOneHot: return "one-hot";
    case QueryFamily::kMinusZero: return "minus zero";
  }
  return "?";
}

const char* Name(Metric metric) {
  switch (metric) {
    case Metric::kDot: return "dot";
    case Metric::kCosine: return "cosine";
    case Metric::kL2: return "l2";
  }
  return "?";
}

const char* Name(RowType type) {
  switch (type) {
    case RowType::kFloat32: return "fp32";
    case RowType::kFloat16: return "fp16";
    case RowType::kBFloat16: return "bf16";
  }
  return "?";
}

const char* Name(IdType type) { return type == IdType::kString ? "string ids" : "number ids"; }

std::string Describe(const CollectionSpec& spec) {
  return absl::StrCat(Name(spec.metric), ", ", Name(spec.row_type), ", dim ", spec.dim, ", ",
                      Name(spec.id_type),
                      spec.scan == ScanChoice::kInt8    ? ", scan int8"
                      : spec.scan == ScanChoice::kInt16 ? ", scan int16"
                      : spec.scan == ScanChoice::kRows  ? ", scan rows"
                                                        : "");
}

}  // namespace nearfield::testing

#include "tests/testing/corpora.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/oracle/oracle.h"
#include "engine/score/row_types.h"
#include "engine/score/score.h"

namespace nearfield::testing {
namespace {

// The bit layout of one element of a row type.
struct Layout {
  uint32_t sign;        // the sign bit
  uint32_t max_finite;  // bits of the largest finite value
  uint32_t mantissa;    // bits of the largest denormal
};

Layout LayoutOf(RowType type) {
  switch (type) {
    case RowType::kFloat16: return {.sign = 0x8000u, .max_finite = 0x7bffu, .mantissa = 0x3ffu};
    case RowType::kBFloat16: return {.sign = 0x8000u, .max_finite = 0x7f7fu, .mantissa = 0x7fu};
    case RowType::kFloat32: break;
  }
  return {.sign = 0x80000000u, .max_finite = 0x7f7fffffu, .mantissa = 0x7fffffu};
}

// Returns the bits of the element of `type` nearest to `value`; the largest finite one if that
// would be infinite.
uint32_t Encode(RowType type, float value) {
  const Layout layout = LayoutOf(type);
  uint32_t bits = score::BitsFromFloat(value);
  if (type == RowType::kFloat16) bits = score::HalfBitsFromFloat(value);
  if (type == RowType::kBFloat16) bits = score::Bfloat16BitsFromFloat(value);
  const uint32_t sign = bits & layout.sign;
  return sign | std::min(bits & (layout.sign - 1u), layout.max_finite);
}

float DecodeElement(RowType type, const uint8_t* element) {
  uint32_t bits = 0;
  std::memcpy(&bits, element, static_cast<size_t>(BytesPerElement(type)));
  if (type == RowType::kFloat16) return score::FloatFromHalfBits(static_cast<uint16_t>(bits));
  if (type == RowType::kBFloat16) return score::FloatFromBfloat16Bits(static_cast<uint16_t>(bits));
  return score::FloatFromBits(bits);
}

uint32_t AnySign(const Layout& layout, Random& random) {
  return random.OneIn(2) ? layout.sign : 0u;
}

using RowBits = std::vector<uint32_t>;  // the elements of one row

// Draws the rows of one family, one after another.
class RowMaker {
 public:
  RowMaker(const CollectionSpec& spec, CorpusFamily family, uint64_t seed)
      : type_(spec.row_type),
        layout_(LayoutOf(type_)),
        family_(family),
        dim_(static_cast<size_t>(spec.dim)),
        random_(seed) {
    const int64_t pool_size =
        family == CorpusFamily::kAllEqual || family == CorpusFamily::kNearTies ? 1 : 5;
    for (int64_t i = 0; i < pool_size; ++i)
      pool_.push_back(Values([this] { return random_.Gaussian(); }));
  }

  RowBits Next() {
    const int64_t place = count_++;
    switch (family_) {
      case CorpusFamily::kGaussian: return Values([this] { return random_.Gaussian(); });
      case CorpusFamily::kClustered: return Clustered();
      case CorpusFamily::kDuplicates:
      case CorpusFamily::kAllEqual: return random_.OneOf<RowBits>(pool_);
      case CorpusFamily::kTwoValues:
        return Values([this] { return random_.OneIn(2) ? 1.0f : -1.0f; });
      case CorpusFamily::kOneHot: return OneHot();
      case CorpusFamily::kDenormal:
        return Bits([this] { return AnySign(layout_, random_) | (Word() & layout_.mantissa); });
      case CorpusFamily::kMaxFinite:
        return Bits([this] { return AnySign(layout_, random_) | layout_.max_finite; });
      case CorpusFamily::kBitPatterns:
        return Bits(
            [this] { return AnySign(layout_, random_) | (Word() % (layout_.max_finite + 1u)); });
      case CorpusFamily::kNegative:
        return Values([this] { return -1e-3f - std::fabs(random_.Gaussian()); });
      case CorpusFamily::kNearTies: return NearTie();
      case CorpusFamily::kZeroRows:
        return place % 2 == 0 ? Zeros() : Values([this] { return random_.Gaussian(); });
      case CorpusFamily::kAllZero: return Zeros();
      case CorpusFamily::kOutliers: return Outliers();
    }
    return {};
  }

 private:
  uint32_t Word() { return static_cast<uint32_t>(random_.Bits()); }
  template <typename F>
  RowBits Bits(F next) {
    RowBits row(dim_);
    for (uint32_t& bits : row) bits = next();
    return row;
  }
  template <typename F>
  RowBits Values(F next) {
    return Bits([this, next] { return Encode(type_, next()); });
  }
  RowBits Zeros() {
    return Bits([this] { return AnySign(layout_, random_); });
  }
  RowBits OneHot() {
    RowBits row(dim_, 0u);
    row[static_cast<size_t>(random_.Bits() % dim_)] = Encode(type_, 1.0f);
    return row;
  }
  RowBits Clustered() {
    RowBits row = random_.OneOf<RowBits>(pool_);
    for (uint32_t& bits : row) {
      uint8_t element[4];
      std::memcpy(element, &bits, sizeof(element));
      bits = Encode(type_, DecodeElement(type_, element) + 0.01f * random_.Gaussian());
    }
    return row;
  }
  RowBits NearTie() {
    RowBits row = pool_[0];
    uint32_t& bits = row[static_cast<size_t>(random_.Bits() % dim_)];
    const int64_t step = random_.Between(-1, 2);
    const auto moved = static_cast<uint32_t>(static_cast<int64_t>(bits) + step);
    if ((moved & (layout_.sign - 1u)) <= layout_.max_finite)
      bits = moved & (layout_.sign | (layout_.sign - 1u));
    return row;
  }
  RowBits Outliers() {
    RowBits row(dim_);
    for (size_t d = 0; d < dim_; ++d) {
      row[d] = Encode(type_, random_.Gaussian() * (d % 97 == 3 || dim_ == 1 ? 1000.0f : 1.0f));
    }
    return row;
  }

  RowType type_;
  Layout layout_;
  CorpusFamily family_;
  size_t dim_;
  Random random_;
  std::vector<RowBits> pool_;
  int64_t count_ = 0;
};

// Returns a different string for each `number`: a common prefix, the number, then a tail that does
// not begin with a digit.
std::string StringId(int64_t number) {
  static constexpr const char* kTails[] = {
      "", "/", "/a", "\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x90\x9f"};
  if (number == 0) return std::string(kIdBytesMax, 'd');
  if (number == 1) return "d";
  return absl::StrCat("doc/", number, kTails[number % 6]);
}

}  // namespace

absl::Span<const uint8_t> Corpus::row(int64_t index) const {
  return absl::MakeConstSpan(rows).subspan(static_cast<size_t>(index * row_bytes()),
                                           static_cast<size_t>(row_bytes()));
}

Corpus MakeCorpus(const CollectionSpec& spec, CorpusFamily family, int64_t rows_count,
                  uint64_t seed) {
  Corpus corpus{.spec = spec, .rows = {}, .ids = MakeIds(spec.id_type, rows_count, Scramble(seed))};
  const auto element_bytes = static_cast<size_t>(BytesPerElement(spec.row_type));
  corpus.rows.resize(static_cast<size_t>(rows_count * corpus.row_bytes()));
  RowMaker maker(spec, family, seed);
  uint8_t* out = corpus.rows.data();
  for (int64_t i = 0; i < rows_count; ++i) {
    for (const uint32_t bits : maker.Next()) {
      std::memcpy(out, &bits, element_bytes);  // little-endian: the low bytes come first
      out += element_bytes;
    }
  }
  return corpus;
}

IdColumn MakeIds(IdType type, int64_t rows_count, uint64_t seed) {
  Random random(seed);
  std::vector<int64_t> numbers = AllIndices(rows_count);
  random.Shuffle(numbers);
  const int64_t scheme = random.Between(0, 3);
  const uint64_t key = random.Bits();
  IdColumn ids(type);
  for (const int64_t number : numbers) {
    const auto value = static_cast<uint64_t>(number);
    if (type == IdType::kString) {
      ids.AppendString(StringId(number));
    } else if (scheme == 0) {
      ids.AppendNumber(value);
    } else {
      ids.AppendNumber(scheme == 1 ? Scramble(value ^ key) : UINT64_MAX - value);
    }
  }
  return ids;
}

std::vector<float> Decode(const CollectionSpec& spec, absl::Span<const uint8_t> row) {
  std::vector<float> values(static_cast<size_t>(spec.dim));
  const auto element_bytes = static_cast<size_t>(BytesPerElement(spec.row_type));
  for (size_t d = 0; d < values.size(); ++d)
    values[d] = DecodeElement(spec.row_type, row.data() + d * element_bytes);
  return values;
}

Corpus Select(const Corpus& corpus, absl::Span<const int64_t> indices) {
  Corpus selected{.spec = corpus.spec, .rows = {}, .ids = IdColumn(corpus.spec.id_type)};
  for (const int64_t index : indices) {
    const absl::Span<const uint8_t> row = corpus.row(index);
    selected.rows.insert(selected.rows.end(), row.begin(), row.end());
    selected.ids.AppendFrom(corpus.ids, index);
  }
  return selected;
}

std::vector<int64_t> AllIndices(int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

Neighbors OracleAnswer(const Corpus& corpus, absl::Span<const float> query, int64_t k,
                       const oracle::Terms* terms) {
  const oracle::Rows rows{.dim = corpus.spec.dim,
                          .metric = corpus.spec.metric,
                          .row_type = corpus.spec.row_type,
                          .data = corpus.rows.data(),
                          .ids = &corpus.ids};
  oracle::Answer answer = oracle::TopK(rows, query, k, terms);
  Neighbors neighbors{.ids = IdColumn(corpus.spec.id_type),
                      .scores = std::move(answer.scores),
                      .rows = {},
                      .payloads = {}};
  for (const int64_t row : answer.rows) neighbors.ids.AppendFrom(corpus.ids, row);
  return neighbors;
}

}  // namespace nearfield::testing

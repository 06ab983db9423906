// All corpora of a few rows over a few values: all orders, all ties, all k.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/score/row_types.h"
#include "tests/property/laws.h"

namespace nearfield::property {
namespace {

struct Space {
  int32_t dim;
  std::vector<float> values;  // values of an element; exact in every row type
};

class EngineTinyCorporaTest : public Laws {
 protected:
  // Compares every `stride`-th corpus of one space with `rows_count` rows with the oracle, for
  // every k, with several queries in one batch.
  void ExpectOracleOnAll(const Space& space, int64_t rows_count, int64_t stride);
};
NEARFIELD_ON_EVERY_BACKEND(EngineTinyCorporaTest);

std::vector<uint8_t> RowBytes(RowType type, const std::vector<float>& values) {
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    uint32_t bits = score::BitsFromFloat(value);
    if (type == RowType::kFloat16) bits = score::HalfBitsFromFloat(value);
    if (type == RowType::kBFloat16) bits = score::Bfloat16BitsFromFloat(value);
    for (int32_t byte = 0; byte < BytesPerElement(type); ++byte)
      bytes.push_back(static_cast<uint8_t>(bits >> (8 * byte)));
  }
  return bytes;
}

// Returns the `number`-th of all ways to choose `count` values.
std::vector<float> Choice(const std::vector<float>& values, int64_t count, int64_t number) {
  std::vector<float> chosen;
  for (int64_t i = 0; i < count; ++i, number /= static_cast<int64_t>(values.size())) {
    chosen.push_back(values[static_cast<size_t>(number % static_cast<int64_t>(values.size()))]);
  }
  return chosen;
}

int64_t Power(int64_t base, int64_t exponent) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) power *= base;
  return power;
}

std::vector<std::vector<float>> Queries(int32_t dim) {
  const auto size = static_cast<size_t>(dim);
  std::vector<float> mixed(size, -1.0f);
  mixed[0] = 2.0f;
  return {std::vector<float>(size, 1.0f), std::vector<float>(size, -1.0f), mixed};
}

void EngineTinyCorporaTest::ExpectOracleOnAll(const Space& space, int64_t rows_count,
                                              int64_t stride) {
  const std::vector<std::vector<float>> queries = Queries(space.dim);
  const int64_t corpora = Power(static_cast<int64_t>(space.values.size()), space.dim * rows_count);
  for (int64_t number = 0; number < corpora; number += stride) {
    CollectionSpec spec{.dim = space.dim};
    spec.scan = GetParam().scan;
    spec.metric = static_cast<Metric>(1 + number % 3);
    spec.row_type = static_cast<RowType>(1 + number / 3 % 3);
    const Case c{
        .corpus = {.spec = spec,
                   .rows = RowBytes(spec.row_type,
                                    Choice(space.values, space.dim * rows_count, number)),
                   .ids = MakeIds(spec.id_type, rows_count, static_cast<uint64_t>(number))},
        .queries = {},
        .k = {},
        .text = {}};
    ASSERT_OK_AND_ASSIGN(const auto collection, testing::MakeCollection(engine(), c.corpus));
    SearchBatch batch;
    std::vector<Neighbors> expected;
    for (const std::vector<float>& query : queries) {
      for (int32_t k = 1; k <= rows_count + 1; ++k) {
        batch.queries.push_back({.vector = query, .row_id = std::nullopt, .k = k});
        expected.push_back(OracleAnswer(c.corpus, query, k));
      }
    }
    SCOPED_TRACE(absl::StrCat("corpus ", number, " of ", corpora, ", ", rows_count, " rows, ",
                              testing::Describe(spec)));
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), expected);
    if (HasFailure()) return;
  }
}

TEST_P(EngineTinyCorporaTest, EveryCorpusEqualsTheOracle) {
  const std::vector<Space> spaces = {{.dim = 1, .values = {0.0f, -0.0f, 1.0f, -1.0f, 2.0f}},
                                     {.dim = 2, .values = {-0.0f, 1.0f, -1.0f}},
                                     {.dim = 3, .values = {0.0f, 1.0f}}};
  // If a run asks for fewer random cases, as under a sanitizer, check fewer corpora too. The stride
  // is coprime to 9, so every metric and row type still occurs.
  const int64_t stride = CasesCount() >= kCasesDefault ? 1 : 31;
  for (const Space& space : spaces) {
    for (int64_t rows_count = 1; rows_count <= 4; ++rows_count) {
      ExpectOracleOnAll(space, rows_count, rows_count == 1 ? 1 : stride);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearfield::property

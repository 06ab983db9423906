#include "tests/property/cases.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace nearfield::property {
namespace {

using testing::Random;

// Returns one of the borders or, as often, any number up to the largest border.
template <typename T, size_t kSize>
T BorderOrAny(Random& random, const std::array<T, kSize>& borders) {
  const auto i = static_cast<size_t>(random.Between(0, kSize));
  return random.OneIn(2) ? borders[i] : static_cast<T>(random.Between(1, borders[i] + 1));
}

// Draws until the value is at most `max`; the first border is 1, so this ends.
template <typename T, size_t kSize>
T BorderUpTo(Random& random, const std::array<T, kSize>& borders, int64_t max) {
  for (;;) {
    const T value = BorderOrAny(random, borders);
    if (value <= std::max<int64_t>(max, 1)) return value;
  }
}

int32_t KFrom(int32_t border, int64_t rows_count) {
  if (border > 0) return border;
  return static_cast<int32_t>(std::clamp<int64_t>(rows_count - 2 - border, 1, kKMax));
}

Query QueryOf(const Case& c, size_t query) {
  return {.vector = c.queries[query], .row_id = std::nullopt, .k = c.k[query]};
}

}  // namespace

Case DrawCase(Random& random, const CaseWish& wish) {
  // Values that `wish` fixes are used as they are; the other sizes share the remaining work.
  const int64_t batch_wished = wish.batch.value_or(1);
  const int64_t dim_max =
      std::min<int64_t>(wish.dim_max, wish.work_max / (wish.rows_count.value_or(1) * batch_wished));
  const int32_t dim = wish.dim.value_or(BorderUpTo(random, kDimBorders, dim_max));
  const int64_t rows_max = wish.work_max / (dim * batch_wished);
  const int64_t rows_count = wish.rows_count.value_or(BorderUpTo(random, kRowsBorders, rows_max));
  const int64_t batch_max = wish.work_max / (dim * rows_count);
  const int32_t batch = wish.batch.value_or(BorderUpTo(random, kBatchBorders, batch_max));

  const CollectionSpec spec = {.dim = dim,
                               .metric = static_cast<Metric>(random.Between(1, 4)),
                               .row_type = static_cast<RowType>(random.Between(1, 4)),
                               .id_type = random.OneIn(2) ? IdType::kString : IdType::kUint64};
  const auto family = random.OneOf<testing::CorpusFamily>(testing::kCorpusFamilies);
  Case c;
  c.corpus = testing::MakeCorpus(spec, family, rows_count, random.Bits());
  c.text = absl::StrCat(rows_count, " rows (", testing::Name(family), "), ",
                        testing::Describe(spec), ", batch ", batch);
  for (int32_t query = 0; query < batch; ++query) {
    const auto query_family = random.OneOf<testing::QueryFamily>(testing::kQueryFamilies);
    c.queries.push_back(testing::MakeQuery(c.corpus, query_family, random));
    c.k.push_back(KFrom(wish.k.value_or(random.OneOf<int32_t>(kKBorders)), rows_count));
    if (query < 9)
      absl::StrAppend(&c.text, query == 0 ? "; " : ", ", testing::Name(query_family), " k ",
                      c.k.back());
  }
  return c;
}

SearchBatch Case::Batch() const {
  SearchBatch batch;
  for (size_t query = 0; query < queries.size(); ++query)
    batch.queries.push_back(QueryOf(*this, query));
  return batch;
}

SearchBatch Case::Batch(size_t query) const {
  SearchBatch batch;
  batch.queries.push_back(QueryOf(*this, query));
  return batch;
}

std::vector<Neighbors> Case::OracleAnswers() const {
  std::vector<Neighbors> answers;
  for (size_t query = 0; query < queries.size(); ++query) {
    answers.push_back(testing::OracleAnswer(corpus, queries[query], k[query]));
  }
  return answers;
}

int CasesCount() {
  static const int count = [] {
    int parsed = 0;
    const char* named =
        std::getenv("NEARFIELD_PROPERTY_CASES");  // NOLINT(concurrency-mt-unsafe): no setenv
    if (named == nullptr || !absl::SimpleAtoi(named, &parsed) || parsed < 1) parsed = kCasesDefault;
    std::printf("%d random cases a law (NEARFIELD_PROPERTY_CASES)\n", parsed);
    return parsed;
  }();
  return count;
}

}  // namespace nearfield::property

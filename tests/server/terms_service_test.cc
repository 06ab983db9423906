// Tests of searches with row terms over a real channel: the answers are those of the oracle over
// the rows that the collection must have, to the bit, whatever changed them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/oracle/oracle.h"
#include "tests/server/attribute_model_fixture.h"
#include "tests/server/scored_rows.h"

namespace nearfield::server {
namespace {

// Returns the number that the contract gives to an attribute of a row; NaN if it has none.
double NumberOf(const PlainAttribute& attribute) {
  if (!attribute.has_value()) return std::numeric_limits<double>::quiet_NaN();
  const PlainValue& value = attribute->front();
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<bool>(&value)) return *number ? 1.0 : 0.0;
  return std::get<double>(value);
}

class TermsServiceTest : public AttributeModelTest {
 protected:
  // Terms as the client sends them, and what the oracle needs.
  struct DrawnTerms {
    pb::RowTerms message;
    struct Term {
      TermParameters parameters;
      int32_t attribute = -1;
      FilterTree filter;  // kIs
    };
    std::vector<Term> terms;
  };

  double DrawNumber() {
    constexpr double kNumbers[] = {0, 1, -1, 0.5, -2.5, 1e-3, 7, 1e6, -1e15, 0.1};
    return kNumbers[random_.Between(0, std::ssize(kNumbers))];
  }
  // Returns the number of a random attribute that terms may read; nullopt if there is none.
  std::optional<int32_t> DrawNumbers() {
    std::vector<int32_t> fit;
    for (int32_t i = 0; i < std::ssize(specs_); ++i) {
      const AttributeSpec& spec = specs_[static_cast<size_t>(i)];
      if (!spec.is_list && spec.type != AttributeType::kKeyword) fit.push_back(i);
    }
    if (fit.empty()) return std::nullopt;
    return random_.OneOf<int32_t>(fit);
  }

  void DrawFilterTerm(DrawnTerms* drawn, pb::RowTerm* message) {
    DrawnTerms::Term& term = drawn->terms.emplace_back();
    term.parameters.form = TermForm::kIs;
    term.filter = DrawFilter();
    SetFilter(PrintWithArguments(term.filter, random_), message->mutable_filter());
  }
  void DrawNumberTerm(int32_t attribute, DrawnTerms* drawn, pb::RowTerm* message) {
    DrawnTerms::Term& term = drawn->terms.emplace_back();
    TermParameters& p = term.parameters;
    term.attribute = attribute;
    message->set_attribute(specs_[static_cast<size_t>(attribute)].name);
    p.origin = DrawNumber();
    const bool scaled = random_.OneIn(2);
    if (scaled) p.scale = DrawNumber();
    if (random_.OneIn(2)) message->set_missing(p.missing = DrawNumber());
    switch (random_.Between(0, 3)) {
      case 0:
        message->mutable_linear()->set_origin(p.origin);
        if (scaled) message->mutable_linear()->set_scale(p.scale);
        return;
      case 1: {
        p.form = TermForm::kClamped;
        const auto [low, high] = std::minmax({DrawNumber(), DrawNumber()});
        pb::ClampedTerm& clamped = *message->mutable_clamped();
        clamped.set_origin(p.origin);
        if (scaled) clamped.set_scale(p.scale);
        clamped.set_low(p.low = low);
        clamped.set_high(p.high = high);
        return;
      }
      default: {
        p.form = TermForm::kHalfLife;
        p.offset = random_.OneIn(2) ? 0 : 2;
        const double half_life = random_.OneOf<double>(std::vector<double>{0.3, 7, 1e6});
        p.scale = 1.0 / half_life;
        message->mutable_half_life()->set_origin(p.origin);
        message->mutable_half_life()->set_half_life(half_life);
        message->mutable_half_life()->set_offset(p.offset);
      }
    }
  }
  DrawnTerms Draw() {
    DrawnTerms drawn;
    if (random_.OneIn(2)) drawn.message.set_score_weight(random_.OneIn(2) ? 0.3 : 2);
    for (int64_t count = random_.Between(0, 5); count > 0; --count) {
      pb::RowTerm* const message = drawn.message.add_terms();
      const std::optional<int32_t> attribute = DrawNumbers();
      if (!attribute.has_value() || random_.OneIn(4)) {
        DrawFilterTerm(&drawn, message);
      } else {
        DrawNumberTerm(*attribute, &drawn, message);
      }
      if (random_.OneIn(2))
        message->set_weight(drawn.terms.back().parameters.weight = DrawNumber());
    }
    return drawn;
  }

  // Returns all rows that pass the filter (null: all), in the order of the answer.
  std::vector<Scored> Expected(const DrawnTerms& drawn, float value,
                               const FilterTree* filter) const {
    const std::vector<uint64_t> passing = Passing(filter);
    std::vector<float> values;
    for (const uint64_t id : passing) values.push_back(model_.at(id).value);
    const IdColumn ids = IdColumn::OfNumbers(passing);
    oracle::Terms terms;
    if (drawn.message.has_score_weight()) terms.score_weight = drawn.message.score_weight();
    std::vector<std::vector<double>> numbers;
    numbers.reserve(drawn.terms.size());
    for (const DrawnTerms::Term& term : drawn.terms) {
      std::vector<double>& of_rows = numbers.emplace_back();
      for (const uint64_t id : passing) of_rows.push_back(NumberOfRow(term, id));
      terms.terms.push_back({.parameters = term.parameters, .numbers = of_rows});
    }
    const auto answer = oracle::TopK({.dim = 1,
                                      .metric = Metric::kDot,
                                      .row_type = RowType::kFloat32,
                                      .data = values.data(),
                                      .ids = &ids},
                                     absl::MakeConstSpan(&value, 1), std::ssize(passing), &terms);
    std::vector<Scored> order;
    for (size_t i = 0; i < answer.rows.size(); ++i) {
      order.push_back(
          {.score = answer.scores[i], .id = passing[static_cast<size_t>(answer.rows[i])]});
    }
    return order;
  }
  double NumberOfRow(const DrawnTerms::Term& term, uint64_t id) const {
    const PlainRow& row = model_.at(id).attributes;
    if (term.attribute >= 0) return NumberOf(row.attributes[static_cast<size_t>(term.attribute)]);
    return Passes(term.filter, specs_, row, id) ? 1.0 : 0.0;
  }

  static std::vector<Scored> First(const std::vector<Scored>& rows, size_t count) {
    return {rows.begin(), rows.begin() + static_cast<ptrdiff_t>(std::min(count, rows.size()))};
  }

  // Expects that the final score of each neighbor is that of its parts.
  void ExpectParts(const pb::QueryResult& result, double score_weight, float value) const {
    ASSERT_EQ(result.parts().scores_size(), result.scores_size());
    ASSERT_EQ(result.parts().term_sums_size(), result.scores_size());
    for (int i = 0; i < result.scores_size(); ++i) {
      const float s = result.parts().scores(i);
      EXPECT_EQ(s, model_.at(result.ids().numbers(i)).value * value);
      const double weighted = score_weight * static_cast<double>(s);
      const float final_score = static_cast<float>(weighted + result.parts().term_sums(i)) + 0.0f;
      EXPECT_EQ(final_score, result.scores(i));
    }
  }

  pb::SearchRequest RequestFor(const DrawnTerms& drawn, float value, const FilterTree* filter) {
    pb::SearchRequest request = For(value);
    *request.mutable_terms() = drawn.message;
    if (filter != nullptr) SetFilter(PrintWithArguments(*filter, random_), &request);
    return request;
  }

  // Searches with random terms, for rows and for pages, and counts the rows that reach a score.
  void SearchSome() {
    const DrawnTerms drawn = Draw();
    const FilterTree tree = DrawFilter();
    const FilterTree* const filter = random_.OneIn(2) ? &tree : nullptr;
    const float value = DrawValue();
    const std::vector<Scored> expected = Expected(drawn, value, filter);
    pb::SearchRequest request = RequestFor(drawn, value, filter);
    request.set_k(static_cast<uint32_t>(random_.Between(1, 17)));
    const bool with_parts = random_.OneIn(2);
    request.set_with_parts(with_parts);
    request.set_verify(random_.OneIn(3));
    const pb::SearchResponse response = CallOk(&Retrieval::Search, request);
    ASSERT_EQ(RowsOf(response.results(0)), First(expected, request.k()));
    EXPECT_EQ(response.results(0).has_parts(), with_parts && !expected.empty());
    const double weight = drawn.message.has_score_weight() ? drawn.message.score_weight() : 1;
    if (with_parts) ExpectParts(response.results(0), weight, value);
    request.clear_verify();
    request.set_k(16);
    ASSERT_EQ(RowsOf(OneByOne(request)), expected);
    ASSERT_EQ(RowsOf(All(request)), expected);
    if (!expected.empty()) CountThoseThatReach(request, expected);
  }
  void CountThoseThatReach(const pb::SearchRequest& search, const std::vector<Scored>& expected) {
    const float threshold = random_.OneOf<Scored>(expected).score;
    pb::FacetsRequest request = FromText("collection: 'c' attributes: '*'");
    *request.mutable_query() = search.queries(0);
    *request.mutable_terms() = search.terms();
    request.set_score_threshold(threshold);
    if (search.has_filter_text()) {
      request.set_filter_text(search.filter_text());
      *request.mutable_filter_args() = search.filter_args();
    }
    if (specs_.empty()) return;
    EXPECT_EQ(CallOk(&Retrieval::Facets, request).rows_count(),
              static_cast<uint64_t>(
                  std::count_if(expected.begin(), expected.end(),
                                [&](const Scored& row) { return row.score >= threshold; })));
  }
  void AwaitNoBytes() {
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().replies.bytes() == 0; }));
  }
};

TEST_F(TermsServiceTest, AnswersAreThoseOfTheOracleAfterAnyChange) {
  Set(settings_.k_max, "16");  // so that long answers take several scans
  ServeDeclared();
  for (int round = 0; round < testing::RandomRounds(150); ++round) {
    SCOPED_TRACE(round);
    Change();
    SearchSome();
    if (HasFailure()) return;
  }
  AwaitNoBytes();
}

TEST_F(TermsServiceTest, RequestsWithOtherTermsShareAStream) {
  ServeDeclared();
  UploadSome();
  std::vector<pb::SearchRequest> requests;
  std::vector<std::vector<Scored>> expected;
  for (int i = 0; i < 40; ++i) {
    const DrawnTerms drawn = Draw();
    expected.push_back(First(Expected(drawn, 2, nullptr), 10));
    requests.push_back(RequestFor(drawn, 2, nullptr));
  }
  SearchStreamCall search(*retrieval_, requests);
  search.stream->WritesDone();
  for (const auto& rows : expected) {
    ASSERT_TRUE(search.Read());
    EXPECT_EQ(RowsOf(search.response.results(0)), rows);
  }
  EXPECT_OK(search.Finish());
}

}  // namespace
}  // namespace nearfield::server

// Tests of Facets over a real channel: the counts are those of a loop over the rows that the
// collection must have, whatever changed them.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/server/attribute_model_fixture.h"
#include "tests/server/attributes/expected_counts.h"

namespace nearfield::server {
namespace {

class FacetsServiceTest : public AttributeModelTest {
 protected:
  // Expects that the counts of all attributes are those of the rows with these ids.
  void ExpectFacets(const pb::FacetsResponse& response, const std::vector<uint64_t>& ids,
                    int64_t values_max) const {
    EXPECT_EQ(response.rows_count(), ids.size());
    std::vector<PlainRow> rows;
    for (const uint64_t id : ids) rows.push_back(model_.at(id).attributes);
    ASSERT_EQ(response.facets_size(), std::ssize(specs_));
    for (int i = 0; i < response.facets_size(); ++i) {
      const pb::Facet& facet = response.facets(i);
      const AttributeSpec& spec = specs_[static_cast<size_t>(i)];
      SCOPED_TRACE(spec.name);
      EXPECT_EQ(facet.attribute(), spec.name);
      ValueCounts counts;
      counts.values = ValuesFromProto(facet.values(), spec.type);
      counts.rows_counts.assign(facet.rows_counts().begin(), facet.rows_counts().end());
      counts.values_count = static_cast<int64_t>(facet.values_count());
      counts.rows_missing = static_cast<int64_t>(facet.rows_missing());
      ExpectCountsOf(counts, rows, i, values_max);
    }
  }

  // Counts all attributes of all rows, or of those that pass a random filter and reach a random
  // score.
  void CountSome() {
    pb::FacetsRequest request = FromText("collection: 'c' attributes: '*'");
    const int64_t values_max = random_.OneIn(2) ? random_.Between(1, 5) : 100;
    if (values_max != 100) request.set_values_max(static_cast<uint32_t>(values_max));
    const FilterTree tree = DrawFilter();
    const bool filtered = random_.OneIn(2);
    if (filtered) SetFilter(PrintWithArguments(tree, random_), &request);
    std::vector<uint64_t> ids = Passing(filtered ? &tree : nullptr);
    if (random_.OneIn(2)) KeepThoseThatReach(&request, &ids);
    ExpectFacets(CallOk(&Retrieval::Facets, request), ids, values_max);
  }
  void KeepThoseThatReach(pb::FacetsRequest* request, std::vector<uint64_t>* ids) {
    const auto threshold = static_cast<float>(random_.Between(-10, 20));
    request->set_score_threshold(threshold);
    float value = 2;
    std::optional<uint64_t> own;
    if (!model_.empty() && random_.OneIn(3)) {
      own = random_.OneOf<uint64_t>(Passing(nullptr));
      value = model_.at(*own).value;
      request->mutable_query()->mutable_row_id()->set_number(*own);
    } else {
      request->mutable_query()->mutable_vector()->add_values(value);
    }
    std::erase_if(
        *ids, [&](uint64_t id) { return id == own || model_.at(id).value * value < threshold; });
  }

  void AwaitNoBytes() {
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().replies.bytes() == 0; }));
  }
  grpc::Status Facets(const std::string& fields, pb::FacetsResponse* response = nullptr) {
    return Call(&Retrieval::Facets, FromText("collection: 'c' " + fields), response);
  }
};

TEST_F(FacetsServiceTest, CountWhatALoopCountsAfterAnyChange) {
  Set(settings_.k_max, "16");  // so that a query takes several scans
  ServeDeclared();
  for (int round = 0; round < testing::RandomRounds(200); ++round) {
    SCOPED_TRACE(round);
    Change();
    CountSome();
    if (HasFailure()) return;
  }
  AwaitNoBytes();
}

// A small collection with known counts.
class FewFacetsTest : public FacetsServiceTest {
 protected:
  // Serves the rows 0 .. 5, whose vectors are their ids.
  void ServeSix() {
    Serve();
    ASSERT_OK(Call(&Admin::CreateCollection, FromText(R"(
        name: 'c' dim: 1 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64
        attributes { name: 'word' type: ATTRIBUTE_TYPE_KEYWORD }
        attributes { name: 'level' type: ATTRIBUTE_TYPE_DOUBLE }
        attributes { name: 'tags' type: ATTRIBUTE_TYPE_KEYWORD is_list: true })")));
    pb::UploadRequest request = FromText(R"(block {
        ids { numbers: [0, 1, 2, 3, 4, 5] }
        attributes { attribute: 'word' presence: '\057'
                     values { keyword_values: ['b', 'a', 'b', 'a', 'c'] } }
        attributes { attribute: 'level'
                     values { double_values: [-0.0, 0, 1, -1, -inf, 1] } }
        attributes { attribute: 'tags' presence: '\003' list_sizes: [3, 0]
                     values { keyword_values: ['x', 'x', 'y'] } } })");
    request.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    request.mutable_block()->mutable_vectors()->set_data(Bytes({0, 1, 2, 3, 4, 5}));
    ASSERT_OK(Send({Begin("c", 6), request, Commit()}));
  }
  std::string Counted(const std::string& fields) {
    pb::FacetsResponse response;
    EXPECT_OK(Facets(fields, &response));
    response.clear_incarnation();
    return response.ShortDebugString();
  }
};

TEST_F(FewFacetsTest, TheLargestCountIsFirstAndTiesAreOrderedByValue) {
  ServeSix();
  EXPECT_EQ(Counted("attributes: ['level', 'word', 'tags']"),
            "epoch: 1 rows_count: 6 "
            "facets { attribute: \"word\" values { keyword_values: \"a\" keyword_values: \"b\" "
            "keyword_values: \"c\" } rows_counts: 2 rows_counts: 2 rows_counts: 1 values_count: 3 "
            "rows_missing: 1 } "
            "facets { attribute: \"level\" values { double_values: 0 double_values: 1 "
            "double_values: -inf double_values: -1 } rows_counts: 2 rows_counts: 2 rows_counts: 1 "
            "rows_counts: 1 values_count: 4 } "
            "facets { attribute: \"tags\" values { keyword_values: \"x\" keyword_values: \"y\" } "
            "rows_counts: 1 rows_counts: 1 values_count: 2 rows_missing: 4 }");
  EXPECT_EQ(Counted("attributes: 'word' values_max: 1 filter_text: 'level >= -1'"),
            "epoch: 1 rows_count: 5 facets { attribute: \"word\" values { keyword_values: \"a\" } "
            "rows_counts: 2 values_count: 3 }");
  EXPECT_EQ(Counted("attributes: 'word' query { vector { values: 1 } } score_threshold: 3"),
            "epoch: 1 rows_count: 3 facets { attribute: \"word\" values { keyword_values: \"a\" "
            "keyword_values: \"c\" } rows_counts: 1 rows_counts: 1 values_count: 2 rows_missing: "
            "1 }");
  EXPECT_EQ(Counted("attributes: 'word' query { vector { values: 1 } } score_threshold: 9"),
            "epoch: 1 facets { attribute: \"word\" values { } }");
}

TEST_F(FewFacetsTest, AnEarlierEpochIsCountedWithItsRowsAndAttributes) {
  ServeSix();
  ASSERT_OK(Call(&Retrieval::PinEpoch, Of("c")));
  const std::string before = Counted("attributes: '*'");
  ASSERT_OK(Call(&Ingest::Delete, FromText("collection: 'c' ids { numbers: [0, 1, 2, 3] }")));
  ASSERT_OK(Call(&Admin::DropAttribute, FromText("collection: 'c' attribute: 'word'")));
  EXPECT_EQ(Counted("attributes: '*' at_epoch: 1"), before);
  EXPECT_THAT(Facets("attributes: 'word'"),
              RefusedWith(kInvalidArgument, "attributes[0]: \"word\""));
  EXPECT_EQ(Counted("attributes: 'level' min_epoch: 3"),
            "epoch: 3 rows_count: 2 facets { attribute: \"level\" values { double_values: -inf "
            "double_values: 1 } rows_counts: 1 rows_counts: 1 values_count: 2 }");
}

TEST_F(FewFacetsTest, ErrorsNameTheFieldTheValueAndTheLimit) {
  ServeSix();
  const auto refused = [&](const std::string& fields, const auto&... parts) {
    // The arguments are checked before the wait for the epoch.
    EXPECT_THAT(Facets(fields), RefusedWith(kInvalidArgument, parts...)) << fields;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    EXPECT_THAT(Call(&Retrieval::Facets, FromText("collection: 'c' min_epoch: 1000 " + fields),
                     nullptr, &context),
                RefusedWith(kInvalidArgument, parts...))
        << fields;
  };
  refused("", "attributes = none, must be at least one");
  refused("attributes: 'x'", "attributes[0]: \"x\" is no attribute of the collection");
  refused("attributes: ['word', 'word']", "attributes[1]: \"word\" is given twice");
  refused("attributes: 'word' values_max: 0", "values_max = 0, must be 1 .. 4096");
  refused("attributes: 'word' values_max: 4097", "values_max = 4097, must be 1 .. 4096");
  refused("attributes: 'word' query { vector { values: 1 } }", "score_threshold: absent");
  refused("attributes: 'word' score_threshold: 1", "query: absent");
  refused("attributes: 'word' query {} score_threshold: 1", "query: none of vector");
  refused("attributes: 'word' query { vector { values: [1, 2] } } score_threshold: 1",
          "query.vector: 2 values, the collection has dim 1");
  refused("attributes: 'word' query { vector { values: 1 } } score_threshold: nan",
          "score_threshold: is not a number");
  refused("attributes: 'word' priority: 7", "priority");
  refused("attributes: 'word' filter_text: ''", "filter_text: column 1");
  EXPECT_THAT(Facets("attributes: 'word' min_epoch: 2 at_epoch: 1"), HasCode(kInvalidArgument));
  EXPECT_THAT(Facets("attributes: 'word' at_epoch: 7"), HasCode(kFailedPrecondition));
  EXPECT_THAT(Facets("attributes: 'word' incarnation: 7"), HasCode(kFailedPrecondition));
  EXPECT_THAT(Facets("attributes: 'word' query { row_id { number: 77 } } score_threshold: 1"),
              HasCode(kNotFound));
  EXPECT_THAT(Call(&Retrieval::Facets, FromText("collection: 'x' attributes: 'word'")),
              HasCode(kNotFound));
  EXPECT_EQ(CallOk(&Retrieval::GetLimits).facet_values_max(), 4096u);
}

TEST_F(FewFacetsTest, MoreRowsThanPageRowsMaxAreRefused) {
  Set(settings_.page_rows_max, "4");
  Set(settings_.k_max, "3");
  ServeSix();
  const std::string query = "attributes: 'word' query { vector { values: 1 } } score_threshold: ";
  EXPECT_OK(Facets(query + "2"));
  EXPECT_THAT(Facets(query + "1"),
              RefusedWith(kResourceExhausted, "score_threshold: more than 4 rows reach 1",
                          "the limit page_rows_max is 4"));
  EXPECT_OK(Facets("attributes: 'word'")) << "without a query there is no limit";
  AwaitNoBytes();
}

TEST_F(FewFacetsTest, AReplyAboveTheMessageLimitIsRefused) {
  Set(settings_.response_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "1KiB");
  ServeSix();
  pb::UploadRequest request = FromText("block {}");
  pb::UploadBlock* const block = request.mutable_block();
  block->add_attributes()->set_attribute("word");
  std::vector<float> values;
  for (uint64_t id = 100; id < 200; ++id) {
    block->mutable_ids()->add_numbers(id);
    values.push_back(1);
    block->mutable_attributes(0)->mutable_values()->add_keyword_values(std::to_string(id) +
                                                                       std::string(1000, 'w'));
  }
  block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  block->mutable_vectors()->set_data(Bytes(values));
  ASSERT_OK(Send({Begin("c", 100), request, Commit()}));
  EXPECT_THAT(Facets("attributes: 'word' values_max: 4096"),
              RefusedWith(kResourceExhausted, "the limit is 65536", "a smaller values_max"));
  EXPECT_OK(Facets("attributes: 'word' values_max: 20"));
  AwaitNoBytes();
}

}  // namespace
}  // namespace nearfield::server

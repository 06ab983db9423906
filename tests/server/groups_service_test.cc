// Tests of searches for groups over a real channel: the answer is that of sorting all rows and
// taking the groups in the order of their first rows, to the bit.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/attribute_model_fixture.h"
#include "tests/server/attributes/expected_counts.h"

namespace nearfield::server {
namespace {

// A group of an answer: its value, and its rows with score and id.
struct Group {
  PlainValue value;
  std::vector<std::pair<float, uint64_t>> rows;

  bool operator==(const Group&) const = default;
};
using Groups = std::vector<Group>;

std::ostream& operator<<(std::ostream& out, const Group& group) {
  out << "group " << group.value.index() << ":";
  for (const auto& [score, id] : group.rows) out << " " << id << "=" << score;
  return out;
}

class GroupsServiceTest : public AttributeModelTest {
 protected:
  struct Asked {
    int32_t attribute = 0;
    float value = 1;              // the query
    std::optional<uint64_t> own;  // the query is this row
    std::optional<float> threshold;
    const FilterTree* filter = nullptr;
    uint32_t rows_max = 1;
  };

  // Sorts all rows, and takes them in that order.
  Groups Expected(const Asked& asked) const {
    std::vector<std::pair<float, uint64_t>> order;
    for (const uint64_t id : Passing(asked.filter)) {
      const Row& row = model_.at(id);
      const float score = row.value * asked.value + 0.0f;
      if (!ValueOf(row, asked.attribute).has_value() || asked.own == id) continue;
      if (!asked.threshold.has_value() || score >= *asked.threshold) order.emplace_back(score, id);
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    Groups groups;
    std::map<PlainValue, size_t> places;  // -0 and +0 are one key
    for (const auto& row : order) {
      const PlainValue value = ValueOf(model_.at(row.second), asked.attribute)->front();
      const auto [place, is_new] = places.try_emplace(value, groups.size());
      if (is_new) groups.push_back({.value = value, .rows = {}});
      Group& group = groups[place->second];
      if (group.rows.size() < asked.rows_max) group.rows.push_back(row);
    }
    return groups;
  }
  static const PlainAttribute& ValueOf(const Row& row, int32_t attribute) {
    return row.attributes.attributes[static_cast<size_t>(attribute)];
  }

  pb::SearchRequest RequestFor(const Asked& asked) {
    pb::SearchRequest request = For(asked.value);
    if (asked.own.has_value()) {
      request.mutable_queries(0)->mutable_row_id()->set_number(*asked.own);
    }
    request.set_group_by(specs_[static_cast<size_t>(asked.attribute)].name);
    request.set_group_rows(asked.rows_max);
    if (asked.threshold.has_value()) request.set_score_threshold(*asked.threshold);
    if (asked.filter != nullptr) SetFilter(PrintWithArguments(*asked.filter, random_), &request);
    return request;
  }

  Groups GroupsOf(const pb::QueryResult& result, int32_t attribute) const {
    const ValueColumn values =
        ValuesFromProto(result.groups().values(), specs_[static_cast<size_t>(attribute)].type);
    Groups groups;
    int row = 0;
    EXPECT_EQ(values.size(), result.groups().rows_counts_size());
    for (int i = 0; i < result.groups().rows_counts_size(); ++i) {
      groups.push_back({.value = PlainValueAt(values, i), .rows = {}});
      for (uint32_t end = result.groups().rows_counts(i); end > 0; --end, ++row) {
        groups.back().rows.emplace_back(result.scores(row), result.ids().numbers(row));
      }
    }
    EXPECT_EQ(row, result.scores_size());
    EXPECT_EQ(row, result.ids().numbers_size());
    return groups;
  }

  // Expects the first k groups, and the others on pages of random sizes, all checked by the oracle.
  void ExpectGroups(const Asked& asked, uint32_t k_max) {
    const Groups expected = Expected(asked);
    const auto k_most = static_cast<int64_t>(k_max / asked.rows_max);
    pb::SearchRequest request = RequestFor(asked);
    request.set_k(static_cast<uint32_t>(random_.Between(1, k_most + 1)));
    request.set_verify(random_.OneIn(2));
    const pb::SearchResponse response = CallOk(&Retrieval::Search, request);
    const auto size = std::min<size_t>(request.k(), expected.size());
    ASSERT_EQ(GroupsOf(response.results(0), asked.attribute),
              Groups(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(size)));
    EXPECT_EQ(response.results(0).matched_rows(), MatchedRows(asked));
    request.set_with_cursor(true);
    Groups all;
    while (true) {
      request.set_k(static_cast<uint32_t>(random_.Between(1, k_most + 1)));
      const pb::SearchResponse page = CallOk(&Retrieval::Search, request);
      for (const Group& group : GroupsOf(page.results(0), asked.attribute)) all.push_back(group);
      if (!page.results(0).has_next_cursor()) break;
      ASSERT_LE(all.size(), expected.size());
      request.set_cursor(page.results(0).next_cursor());
    }
    ASSERT_EQ(all, expected);
  }
  uint64_t MatchedRows(Asked asked) const {
    asked.threshold.reset();
    asked.rows_max = std::numeric_limits<uint32_t>::max();
    uint64_t rows = 0;
    for (const Group& group : Expected(asked)) rows += group.rows.size();
    return rows;
  }

  // Returns the number of a random attribute that is not a list; nullopt if there is none.
  std::optional<int32_t> DrawScalar() {
    std::vector<int32_t> scalars;
    for (int32_t i = 0; i < std::ssize(specs_); ++i) {
      if (!specs_[static_cast<size_t>(i)].is_list) scalars.push_back(i);
    }
    if (scalars.empty()) return std::nullopt;
    return random_.OneOf<int32_t>(scalars);
  }
};

TEST_F(GroupsServiceTest, AreThoseOfTheSortedRowsAfterAnyChange) {
  constexpr uint32_t kMax = 16;  // so that a search takes several scans
  Set(settings_.k_max, std::to_string(kMax));
  ServeDeclared();
  for (int round = 0; round < testing::RandomRounds(150); ++round) {
    SCOPED_TRACE(round);
    Change();
    const std::optional<int32_t> attribute = DrawScalar();
    if (!attribute.has_value()) return;
    Asked asked = {.attribute = *attribute, .value = 2};
    asked.rows_max = static_cast<uint32_t>(random_.Between(1, 6));
    const FilterTree tree = DrawFilter();
    if (random_.OneIn(2)) asked.filter = &tree;
    if (random_.OneIn(3)) asked.threshold = static_cast<float>(random_.Between(-12, 12));
    if (random_.OneIn(4) && !model_.empty()) {
      asked.own = random_.OneOf<uint64_t>(Passing(nullptr));
      asked.value = model_.at(*asked.own).value;
    }
    ExpectGroups(asked, kMax);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
  EXPECT_TRUE(Eventually([&] { return server_->state().ledger().replies.bytes() == 0; }));
}

// Families of rows in which a search for too few rows finds the wrong groups, on each backend.
// Attribute 0 is an int64, attribute 1 a double.
struct Devices {
  BackendKind backend = BackendKind::kCpu;
  int32_t count = 1;
};
class GroupFamiliesTest : public GroupsServiceTest, public ::testing::WithParamInterface<Devices> {
 protected:
  GroupFamiliesTest() {
    specs_ = {{.name = "a", .type = AttributeType::kInt64},
              {.name = "b", .type = AttributeType::kDouble}};
    schema_ = *AttributeSchema::Create(specs_, {});
    Set(settings_.memory_bytes, "64MiB");
    make_engine_ = [](EngineOptions options) {
      options.backend = is_gpu() ? BackendChoice::kGpu : BackendChoice::kCpu;
      if (!is_gpu()) options.cpu_devices = GetParam().count;
      options.spread = {.one_device_bytes = 0, .stripe_rows = 3};
      return Engine::Create(options);
    };
  }
  static bool is_gpu() { return GetParam().backend == BackendKind::kGpu; }
  void SetUp() override {
    const EngineOptions options = {.backend = BackendChoice::kGpu, .memory_bytes = 64 << 20};
    if (is_gpu() && !Engine::Create(options).ok()) GTEST_SKIP() << "no GPU";
  }

  // Returns the groups of the rows of one family; nullopt: the row is in none.
  std::vector<std::optional<int64_t>> DrawFamily(int64_t family, int64_t rows_count) {
    std::vector<std::optional<int64_t>> groups;
    for (int64_t row = 0; row < rows_count; ++row) {
      switch (family) {
        case 0: groups.push_back(row); break;  // one row each
        case 1: groups.push_back(random_.OneIn(2) ? 0 : random_.Between(1, 30)); break;
        case 2: groups.push_back(7); break;  // one group
        case 3: groups.push_back(random_.Between(0, 1 + random_.Between(0, 40))); break;
        case 4: groups.push_back(row / 17); break;  // good rows of a group are neighbors
        default:
          groups.push_back(random_.OneIn(3) ? std::nullopt : std::optional(random_.Between(0, 20)));
      }
    }
    return groups;
  }

  void UploadFamily(int64_t family) {
    const int64_t rows_count = random_.Between(1, 300);
    const auto groups = DrawFamily(family, rows_count);
    const bool ties = random_.OneIn(3);
    const bool sorted = random_.OneIn(2);
    pb::UploadRequest request;
    std::vector<float> values;
    std::vector<PlainRow> rows;
    std::vector<uint64_t> ids;
    for (int64_t row = 0; row < rows_count; ++row) ids.push_back(static_cast<uint64_t>(row));
    if (!sorted) random_.Shuffle(ids);
    model_.clear();
    for (int64_t row = 0; row < rows_count; ++row) {
      const auto place = static_cast<size_t>(row);
      rows.emplace_back();
      rows.back().attributes.resize(2);
      if (groups[place].has_value()) {
        const int64_t group = *groups[place];
        rows.back().attributes[0] = std::vector<PlainValue>{group};
        // Group 0 has both zeros.
        const double zero = random_.OneIn(2) ? -0.0 : 0.0;
        rows.back().attributes[1] =
            std::vector<PlainValue>{group == 0 ? zero : static_cast<double>(group)};
      }
      values.push_back(ties ? 3.0f : static_cast<float>(rows_count - row / 2));
      model_[ids[place]] = {.value = values.back(), .attributes = rows.back()};
      request.mutable_block()->mutable_ids()->add_numbers(ids[place]);
    }
    request.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    request.mutable_block()->mutable_vectors()->set_data(Bytes(values));
    ToMessages(schema_, BlockOf(schema_, rows), request.mutable_block()->mutable_attributes());
    pb::UploadRequest begin = Begin("c", static_cast<uint64_t>(rows_count));
    begin.mutable_begin()->set_mode(pb::UPLOAD_MODE_REPLACE);
    ASSERT_OK(Send({begin, request, Commit()}));
  }
};

TEST_P(GroupFamiliesTest, AreThoseOfTheSortedRows) {
  constexpr uint32_t kMax = 24;
  Set(settings_.k_max, std::to_string(kMax));
  ServeDeclared();
  for (int round = 0; round < testing::RandomRounds(60); ++round) {
    SCOPED_TRACE(round);
    UploadFamily(round % 6);
    if (random_.OneIn(2)) DeleteSome();
    Asked asked = {.attribute = static_cast<int32_t>(random_.Between(0, 2))};
    asked.rows_max = static_cast<uint32_t>(random_.Between(1, 7));
    ExpectGroups(asked, kMax);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GroupFamiliesTest,
                         ::testing::Values(Devices{.backend = BackendKind::kCpu},
                                           Devices{.backend = BackendKind::kCpu, .count = 3},
                                           Devices{.backend = BackendKind::kGpu}));

// A small collection with known groups.
class FewGroupsTest : public PagesServiceTest {
 protected:
  // Serves the rows 0 .. 5, whose vectors are their ids. Row 4 is in no group.
  void ServeSix() {
    Serve();
    ASSERT_OK(Call(&Admin::CreateCollection, FromText(R"(
        name: 'c' dim: 1 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64
        attributes { name: 'word' type: ATTRIBUTE_TYPE_KEYWORD }
        attributes { name: 'tags' type: ATTRIBUTE_TYPE_KEYWORD is_list: true })")));
    pb::UploadRequest request = FromText(R"(block {
        ids { numbers: [0, 1, 2, 3, 4, 5] }
        payloads: ['p0', 'p1', 'p2', 'p3', 'p4', 'p5']
        attributes { attribute: 'word' presence: '\057'
                     values { keyword_values: ['b', 'a', 'b', 'a', 'c'] } } })");
    request.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    request.mutable_block()->mutable_vectors()->set_data(Bytes({0, 1, 2, 3, 4, 5}));
    ASSERT_OK(Send({Begin("c", 6, 100), request, Commit()}));
  }
  static pb::SearchRequest Grouped(const std::string& fields = "") {
    return FromText("collection: 'c' queries { vector { values: 1 } } group_by: 'word' " + fields);
  }
};

TEST_F(FewGroupsTest, RowsOfAGroupComeWithTheirPartsAndAttributes) {
  ServeSix();
  pb::SearchResponse response =
      CallOk(&Retrieval::Search, Grouped("k: 2 group_rows: 2 with_payload: true with_vectors: true "
                                         "attributes: 'word' with_digest: true"));
  EXPECT_EQ(response.result_digest().size(), 32u);
  response.mutable_results(0)->mutable_vectors()->clear_dtype();
  EXPECT_EQ(response.results(0).vectors().data(), Bytes({5, 3, 1}));
  response.mutable_results(0)->clear_vectors();
  EXPECT_EQ(response.results(0).ShortDebugString(),
            "ids { numbers: 5 numbers: 3 numbers: 1 } scores: 5 scores: 3 scores: 1 "
            "payloads: \"p5\" payloads: \"p3\" payloads: \"p1\" matched_rows: 5 "
            "attributes { attribute: \"word\" values { keyword_values: \"c\" keyword_values: "
            "\"a\" keyword_values: \"a\" } } "
            "groups { values { keyword_values: \"c\" keyword_values: \"a\" } rows_counts: 1 "
            "rows_counts: 2 }");
}

TEST_F(FewGroupsTest, ABatchEqualsItsQueriesOneByOneAndIsNotPacked) {
  ServeSix();
  pb::SearchRequest batch = Grouped("group_rows: 2 packed: true");
  batch.add_queries()->mutable_vector()->add_values(-1);
  const pb::SearchResponse both = CallOk(&Retrieval::Search, batch);
  ASSERT_EQ(both.results_size(), 2);
  for (int i = 0; i < 2; ++i) {
    pb::SearchRequest one = batch;
    one.clear_queries();
    *one.add_queries() = batch.queries(i);
    EXPECT_EQ(CallOk(&Retrieval::Search, one).results(0).ShortDebugString(),
              both.results(i).ShortDebugString());
  }
}

TEST_F(FewGroupsTest, ACursorBelongsToItsAttributeAndItsEpoch) {
  ServeSix();
  const pb::SearchResponse first = CallOk(&Retrieval::Search, Grouped("k: 1 with_cursor: true"));
  ASSERT_TRUE(first.results(0).has_next_cursor());
  ASSERT_OK(Call(&Ingest::Delete, FromText("collection: 'c' ids { numbers: [1, 3] }")));
  pb::SearchRequest next = Grouped("k: 5 group_rows: 3");
  next.set_cursor(first.results(0).next_cursor());
  const pb::SearchResponse rest = CallOk(&Retrieval::Search, next);
  EXPECT_EQ(rest.epoch(), 1u);
  EXPECT_EQ(rest.results(0).groups().ShortDebugString(),
            "values { keyword_values: \"a\" keyword_values: \"b\" } rows_counts: 2 rows_counts: 2");
  EXPECT_FALSE(rest.results(0).has_next_cursor());
  pb::SearchRequest rows =
      FromText("collection: 'c' queries { vector { values: 1 } } filter_text: 'exists(word)'");
  rows.set_cursor(first.results(0).next_cursor());
  EXPECT_THAT(Search(rows), RefusedWith(kInvalidArgument, "cursor: of another search"));
}

TEST_F(FewGroupsTest, PagesEndAtPageRowsMaxGroups) {
  Set(settings_.page_rows_max, "2");
  ServeSix();
  const pb::SearchResponse page = CallOk(&Retrieval::Search, Grouped("k: 5 with_cursor: true"));
  EXPECT_EQ(page.results(0).groups().rows_counts_size(), 2);
  EXPECT_FALSE(page.results(0).has_next_cursor());
  EXPECT_TRUE(page.results(0).cut());
}

TEST_F(FewGroupsTest, ErrorsNameTheFieldTheValueAndTheLimit) {
  Set(settings_.k_max, "20");
  ServeSix();
  const auto refused = [&](const std::string& fields, const auto&... parts) {
    EXPECT_THAT(Search(FromText("collection: 'c' queries { vector { values: 1 } } " + fields)),
                RefusedWith(kInvalidArgument, parts...))
        << fields;
  };
  refused("group_by: 'x'", "group_by: \"x\" is no attribute");
  refused("group_by: ''", "group_by");
  refused("group_by: 'tags'", "group_by: \"tags\" is a list of keyword");
  refused("group_rows: 2", "group_by: absent");
  refused("group_by: 'word' group_rows: 0", "group_rows = 0, must be 1 .. 20");
  refused("group_by: 'word' k: 7 group_rows: 3", "group_rows = 3, must be at most 2 for k = 7");
  EXPECT_OK(Search(Grouped("k: 5 group_rows: 4")));
  EXPECT_THAT(All(Grouped("k: 5")).status,
              RefusedWith(kInvalidArgument, "search.group_by", "use Search with a cursor"));
}

TEST_F(FewGroupsTest, WithoutAGroupTheAnswerIsEmpty) {
  ServeSix();
  const pb::SearchResponse none =
      CallOk(&Retrieval::Search, Grouped("filter_text: 'word == \"z\"' verify: true"));
  EXPECT_EQ(none.results(0).scores_size(), 0);
  EXPECT_TRUE(none.results(0).has_groups());
  EXPECT_EQ(none.results(0).groups().rows_counts_size(), 0);
}

}  // namespace
}  // namespace nearfield::server

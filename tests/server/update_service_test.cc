// Tests of Ingest.Update, and of the attributes that Admin adds and drops, over a real channel.
#include <atomic>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

class UpdateServiceTest : public ServerFixture {
 protected:
  // Serves the rows 1 .. 4 of "c", which declares status:keyword, version:int64, tags:keyword[] and
  // until:timestamp, with version 0 for each row.
  void ServeDeclared() {
    Serve();
    ASSERT_OK(Call(&Admin::CreateCollection, FromText(R"(
        name: 'c' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64
        attributes { name: 'status' type: ATTRIBUTE_TYPE_KEYWORD }
        attributes { name: 'version' type: ATTRIBUTE_TYPE_INT64 }
        attributes { name: 'tags' type: ATTRIBUTE_TYPE_KEYWORD is_list: true }
        attributes { name: 'until' type: ATTRIBUTE_TYPE_TIMESTAMP expires: true })")));
    pb::UploadRequest block = Block({1, 2, 3, 4}, "old");
    *block.mutable_block()->add_attributes() =
        FromText("attribute: 'version' values { int64_values: [0, 0, 0, 0] }");
    ASSERT_OK(Send({Begin("c", 4, 100), block, Commit()}));
  }

  grpc::Status Update(const std::string& fields, pb::UpdateResponse* response = nullptr) {
    return Call(&Ingest::Update, FromText("collection: 'c' " + fields), response);
  }
  pb::UpdateResponse UpdateOk(const std::string& fields) {
    pb::UpdateResponse response;
    EXPECT_OK(Update(fields, &response)) << fields;
    return response;
  }
  uint64_t CountOf(const std::string& filter, const std::string& more = "") {
    pb::CountResponse response;
    EXPECT_OK(Call(&Retrieval::Count,
                   FromText("collection: 'c' filter_text: '" + filter + "' " + more), &response));
    return response.rows_count();
  }
  pb::FetchResponse FetchRow(uint64_t id) {
    return CallOk(&Retrieval::Fetch,
                  FromText("collection: 'c' with_payload: true attributes: '*' ids { numbers: " +
                           std::to_string(id) + " }"));
  }
};

TEST_F(UpdateServiceTest, RowsChangeWhereTheyAre) {
  ServeDeclared();
  const pb::SearchRequest search = [] {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    request.set_with_digest(true);
    return request;
  }();
  pb::SearchResponse before;
  ASSERT_OK(Search(search, &before));
  const pb::UpdateResponse reply = UpdateOk(R"(ids { numbers: [3, 9, 1] }
      attributes { column { attribute: 'status' values { keyword_values: ['a', 'b', 'c'] } } }
      payloads { payloads: ['x', 'y', 'z'] })");
  EXPECT_EQ(reply.epoch(), 2u);
  EXPECT_EQ(reply.rows_updated(), 2u);
  EXPECT_EQ(reply.missing().numbers_size(), 1);
  EXPECT_EQ(reply.missing().numbers(0), 9u);
  EXPECT_EQ(reply.refused().numbers_size(), 0);
  EXPECT_EQ(FetchRow(3).payloads(0), "x");
  EXPECT_EQ(FetchRow(1).payloads(0), "z");
  EXPECT_EQ(FetchRow(2).payloads(0), "old");
  EXPECT_EQ(CountOf("status == \"a\""), 1u);
  EXPECT_EQ(CountOf("status in (\"a\", \"b\", \"c\")"), 2u);
  EXPECT_EQ(CountOf("version == 0"), 4u) << "attributes without an entry stay";
  pb::SearchResponse after;
  ASSERT_OK(Search(search, &after));
  EXPECT_EQ(after.result_digest(), before.result_digest());
  EXPECT_EQ(after.epoch(), 2u);
}

TEST_F(UpdateServiceTest, AMaskSaysWhichValuesChangeAndARowWithoutAValueLosesIt) {
  ServeDeclared();
  // Row 1 gets 5, row 2 keeps 0, row 3 loses its value.
  UpdateOk(R"(ids { numbers: [1, 2, 3] }
      attributes {
        column { attribute: 'version' values { int64_values: 5 } presence: '\001' }
        changed: '\005' }
      attributes {
        column { attribute: 'tags' values { keyword_values: ['p', 'q'] } list_sizes: [2, 0, 0] } }
      payloads { payloads: ['n', '', ''] changed: '\003' })");
  EXPECT_EQ(CountOf("version == 5 and id == 1"), 1u);
  EXPECT_EQ(CountOf("version == 0"), 2u);
  EXPECT_EQ(CountOf("not exists(version) and id == 3"), 1u);
  EXPECT_EQ(CountOf("tags all (\"p\", \"q\")"), 1u);
  EXPECT_EQ(CountOf("exists(tags)"), 3u);
  EXPECT_EQ(FetchRow(1).payloads(0), "n");
  EXPECT_EQ(FetchRow(2).payloads(0), "");
  EXPECT_EQ(FetchRow(3).payloads(0), "old");
}

TEST_F(UpdateServiceTest, OneAssignmentChangesAllRowsThatPassAFilter) {
  ServeDeclared();
  const pb::UpdateResponse reply = UpdateOk(R"(filter_text: 'id in $1'
      filter_args { ids { numbers: [2, 4, 77] } }
      attributes { column { attribute: 'status' values { keyword_values: 'done' } } }
      payloads { payloads: 'all' })");
  EXPECT_EQ(reply.rows_updated(), 2u);
  EXPECT_EQ(reply.missing().numbers_size(), 0);
  EXPECT_EQ(CountOf("status == \"done\""), 2u);
  EXPECT_EQ(FetchRow(4).payloads(0), "all");
  const pb::UpdateResponse none = UpdateOk(R"(filter_text: 'version > 7'
      attributes { column { attribute: 'status' presence: '\000' } })");
  EXPECT_EQ(none.rows_updated(), 0u);
  EXPECT_EQ(none.epoch(), reply.epoch()) << "nothing changed, so the epoch stays";
}

TEST_F(UpdateServiceTest, CompareAndSetLosesNoIncrement) {
  ServeDeclared();
  constexpr int kAgents = 8;
  constexpr int kIncrements = 25;
  std::atomic<int> refused{0};
  std::vector<std::thread> agents;
  for (int agent = 0; agent < kAgents; ++agent) {
    agents.emplace_back([&] {
      for (int done = 0; done < kIncrements;) {
        const auto version = FetchRow(1).attributes(1).values().int64_values(0);
        const pb::UpdateResponse reply = UpdateOk(
            "ids { numbers: 1 } if_filter_text: 'version == $1' if_filter_args { values { "
            "int64_values: " +
            std::to_string(version) +
            " } } attributes { column { attribute: "
            "'version' values { int64_values: " +
            std::to_string(version + 1) + " } } }");
        done += static_cast<int>(reply.rows_updated());
        refused += reply.refused().numbers_size();
      }
    });
  }
  for (std::thread& agent : agents) agent.join();
  EXPECT_EQ(CountOf("version == " + std::to_string(kAgents * kIncrements)), 1u);
  pb::GetCollectionResponse info = CallOk(&Admin::GetCollection, Named("c"));
  EXPECT_EQ(info.collection().epoch(), 1u + kAgents * kIncrements) << refused.load();
}

TEST_F(UpdateServiceTest, AnEarlierEpochShowsTheValuesOfThatTime) {
  ServeDeclared();
  ASSERT_OK(Call(&Retrieval::PinEpoch, Of("c")));
  UpdateOk(R"(filter_text: 'version == 0'
      attributes { column { attribute: 'version' values { int64_values: 1 } } }
      payloads { payloads: 'new' })");
  EXPECT_EQ(CountOf("version == 0", "at_epoch: 1"), 4u);
  EXPECT_EQ(CountOf("version == 1", "at_epoch: 1"), 0u);
  EXPECT_EQ(CountOf("version == 1"), 4u);
  const auto old = CallOk(&Retrieval::Fetch, FromText("collection: 'c' with_payload: true "
                                                      "at_epoch: 1 ids { numbers: 2 }"));
  EXPECT_EQ(old.payloads(0), "old");
}

TEST_F(UpdateServiceTest, AWholeCallMayDependOnTheEpoch) {
  ServeDeclared();
  const std::string change =
      "ids { numbers: 1 } attributes { column { attribute: 'version' values { int64_values: 1 } } "
      "}";
  EXPECT_THAT(Update(change + " if_epoch: 7"),
              RefusedWith(kFailedPrecondition, "if_epoch: 7, the collection is at epoch 1"));
  EXPECT_THAT(Update(change + " if_epoch: 1 incarnation: 5"),
              RefusedWith(kFailedPrecondition, "incarnation: 5"));
  EXPECT_EQ(UpdateOk(change + " if_epoch: 1").epoch(), 2u);
  EXPECT_THAT(Update(change + " if_epoch: 1"), HasCode(kFailedPrecondition));
}

TEST_F(UpdateServiceTest, WrongUpdatesAreRefusedWithTheFieldAndTheLimit) {
  Set(settings_.fetch_ids_max, "3");
  Set(settings_.payload_bytes_max, "8");
  ServeDeclared();
  const std::string one =
      " attributes { column { attribute: 'version' values { int64_values: 1 } } }";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"ids { numbers: 1 }", "attributes: neither attributes nor payloads are given"},
      {one, "ids = 0 ids, must be 1 .. 3"},
      {"ids { numbers: [1, 2, 3, 4] }" + one, "must be 1 .. 3"},
      {"ids { texts: 'a' }" + one, "ids"},
      {"ids { numbers: [1, 2, 1] }" + one, "ids: id 1 is given twice"},
      {"ids { numbers: 1 } filter_text: 'id == 1'" + one, "filter_text: given with 1 ids"},
      {"ids { numbers: [1, 2] }" + one, "attributes[0].column.values: 1 given"},
      {"ids { numbers: 1 } attributes { column { attribute: 'x' } }",
       "attributes[0].column.attribute: \"x\" is no attribute"},
      {"ids { numbers: 1 }" + one + one, "\"version\" is given twice"},
      {"ids { numbers: 1 } attributes { column { attribute: 'version' values { bool_values: true "
       "} } }",
       "attributes[0].column.values: bool given"},
      {"ids { numbers: 1 } attributes { column { attribute: 'version' values { int64_values: 1 } } "
       "changed: '\\000' }",
       "attributes[0].column: row 0 has a value, but `changed` says"},
      {"ids { numbers: 1 } attributes { column { attribute: 'version' values { int64_values: 1 } } "
       "changed: '\\000\\000' }",
       "attributes[0].changed: 2 bytes for 1 rows"},
      {"ids { numbers: 1 } payloads { payloads: ['a', 'b'] }", "payloads.payloads = 2, must be 1"},
      {"ids { numbers: 1 } payloads { payloads: '123456789' }", "at most 8"},
      {"ids { numbers: 1 } payloads { payloads: 'a' changed: '\\000' }", "payloads.payloads[0]"},
      {"filter_text: 'id == 1' if_filter_text: 'id == 1'" + one, "if_filter_text: given with"},
      {"ids { numbers: 1 } if_filter_text: 'nothing == 1'" + one, "nothing"},
      {"filter_text: 'id =='" + one, "filter_text"},
  };
  for (const auto& [fields, message] : wrong) {
    EXPECT_THAT(Update(fields), RefusedWith(kInvalidArgument, message)) << fields;
  }
  EXPECT_THAT(
      Update("ids { numbers: 1 } update_token: 't'" + one),
      RefusedWith(kFailedPrecondition, "update_token: this server keeps no data directory"));
  EXPECT_THAT(Call(&Ingest::Update, FromText("collection: 'd' ids { numbers: 1 }" + one)),
              HasCode(kNotFound));
  EXPECT_EQ(CallOk(&Admin::GetCollection, Named("c")).collection().epoch(), 1u);
}

// The error counted the rows that were found, so it named another row of the request.
TEST_F(UpdateServiceTest, ARowWhoseAttributesBecomeTooLargeIsNamedAsInTheRequest) {
  ServeDeclared();
  const auto tags = [](const std::string& list_sizes) {
    std::string text = " attributes { column { attribute: 'tags' list_sizes: " + list_sizes;
    for (int i = 0; i < 70; ++i)
      text += " values { keyword_values: '" + std::string(1000, 't') + "' }";
    return text + " } }";
  };
  EXPECT_THAT(
      Update("ids { numbers: [99, 1, 3] } if_filter_text: 'not id == 1'" + tags("[0, 0, 70]")),
      RefusedWith(kInvalidArgument, "attributes: row 2 (id 3) would have 70"));
  EXPECT_THAT(Update("filter_text: 'id == 2'" + tags("70")),
              RefusedWith(kInvalidArgument, "bytes of attributes, must be at most 65536"));
}

// The values of an assignment were counted once, not for each row that passes the filter.
TEST_F(UpdateServiceTest, TheValuesOfAllRowsOfAnAssignmentAreBounded) {
  ServeDeclared();
  std::vector<uint64_t> ids(5000);
  std::iota(ids.begin(), ids.end(), 100);
  ASSERT_OK(Send({Begin("c", ids.size(), 0), Block(ids), Commit()}));
  std::string tags = " attributes { column { attribute: 'tags' list_sizes: 60";
  for (int i = 0; i < 60; ++i)
    tags += " values { keyword_values: '" + std::string(1000, 't') + "' }";
  tags += " } }";
  EXPECT_THAT(Update("filter_text: 'not exists(status)'" + tags),
              RefusedWith(kResourceExhausted, "filter_text: the values of the 5004 rows take"));
}

TEST_F(UpdateServiceTest, AttributesAreAddedAndDropped) {
  ServeDeclared();
  ASSERT_OK(Call(&Retrieval::PinEpoch, Of("c")));
  pb::AddAttributeResponse added;
  const auto add = [&](const std::string& spec) {
    return Call(&Admin::AddAttribute, FromText("collection: 'c' attribute { " + spec + " }"),
                &added);
  };
  EXPECT_THAT(add("name: 'version' type: ATTRIBUTE_TYPE_INT64"),
              RefusedWith(kInvalidArgument, "attribute.name: \"version\" is declared already"));
  EXPECT_THAT(add("name: 'x'"), RefusedWith(kInvalidArgument, "attribute.type"));
  EXPECT_THAT(add("name: 'x' type: ATTRIBUTE_TYPE_TIMESTAMP expires: true"),
              RefusedWith(kInvalidArgument, "attribute.expires: rows already expire with"));
  ASSERT_OK(add("name: 'owner' type: ATTRIBUTE_TYPE_KEYWORD"));
  EXPECT_EQ(added.epoch(), 2u);
  EXPECT_EQ(CountOf("exists(owner)"), 0u);
  UpdateOk(
      "ids { numbers: 2 } attributes { column { attribute: 'owner' values { keyword_values: "
      "'me' } } }");
  EXPECT_EQ(CountOf("owner == \"me\""), 1u);
  // A read of an earlier epoch knows only the attributes of that time.
  EXPECT_THAT(Call(&Retrieval::Count, FromText("collection: 'c' at_epoch: 1 filter_text: "
                                               "'exists(owner)'")),
              HasCode(kInvalidArgument));
  const auto drop = [&](const std::string& name) {
    return Call(&Admin::DropAttribute, FromText("collection: 'c' attribute: '" + name + "'"));
  };
  EXPECT_THAT(drop("x"), RefusedWith(kNotFound, "\"x\" is no attribute"));
  ASSERT_OK(drop("version"));
  EXPECT_THAT(Call(&Retrieval::Count, FromText("collection: 'c' filter_text: 'version == 0'")),
              RefusedWith(kInvalidArgument, "version"));
  EXPECT_EQ(CountOf("version == 0", "at_epoch: 1"), 4u);
  ASSERT_OK(add("name: 'version' type: ATTRIBUTE_TYPE_KEYWORD"));
  EXPECT_EQ(CountOf("exists(version)"), 0u);
  EXPECT_EQ(CountOf("version == 0", "at_epoch: 1"), 4u);
  EXPECT_EQ(CallOk(&Admin::GetCollection, Named("c")).collection().attributes_size(), 5);
}

// A page of an earlier epoch continues with the attributes of that time.
TEST_F(UpdateServiceTest, ACursorKeepsItsAttributes) {
  ServeDeclared();
  pb::SearchRequest search = SearchFor("c", {1, 0});
  search.set_k(2);
  search.set_with_cursor(true);
  search.set_filter_text("version == 0");
  search.add_attributes("version");
  pb::SearchResponse first;
  ASSERT_OK(Search(search, &first));
  ASSERT_OK(Call(&Admin::DropAttribute, FromText("collection: 'c' attribute: 'version'")));
  ASSERT_OK(Call(&Admin::AddAttribute, FromText("collection: 'c' attribute { name: 'version' type: "
                                                "ATTRIBUTE_TYPE_INT64 }")));
  search.set_cursor(first.results(0).next_cursor());
  pb::SearchResponse second;
  ASSERT_OK(Search(search, &second));
  EXPECT_EQ(second.results(0).ids().numbers_size(), 2);
  EXPECT_EQ(second.results(0).attributes(0).values().int64_values_size(), 2);
  search.clear_cursor();
  ASSERT_OK(Search(search, &second));
  EXPECT_EQ(second.results(0).ids().numbers_size(), 0) << "no row has a value of the new attribute";
}

TEST_F(UpdateServiceTest, RowsExpireAsAnOrdinaryDelete) {
  Set(settings_.expire_interval_s, "1");
  ServeDeclared();
  UpdateOk(
      "ids { numbers: [1, 2] } attributes { column { attribute: 'until' values { "
      "timestamp_us_values: [1000000, 9000000000000000] } } }");
  EXPECT_TRUE(Eventually([&] { return RowsCount() == 3u; }));
  EXPECT_EQ(CountOf("id == 1"), 0u);
  EXPECT_EQ(CallOk(&Admin::GetCollection, Named("c")).collection().epoch(), 3u);
  EXPECT_TRUE(Eventually([&] {
    const pb::GetCountersResponse counters = CallOk(&Admin::GetCounters);
    for (const auto& call : counters.calls()) {
      if (call.method() == "Expire") return call.rows_count() == 1u;
    }
    return false;
  }));
}

TEST_F(UpdateServiceTest, ATokenMakesAnUpdateSafeToRepeat) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  ServeDeclared();
  const std::string change = R"(ids { numbers: [1, 9] } update_token: 't'
      if_filter_text: 'version == 0'
      attributes { column { attribute: 'version' values { int64_values: [1, 1] } } })";
  const pb::UpdateResponse first = UpdateOk(change);
  EXPECT_EQ(first.rows_updated(), 1u);
  // Another change of the row; the token's reply stays the first one.
  UpdateOk(
      "ids { numbers: 1 } attributes { column { attribute: 'version' values { int64_values: 0 "
      "} } }");
  const pb::UpdateResponse again = UpdateOk(change);
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  EXPECT_EQ(CountOf("version == 0"), 4u);
  // Not the reply of another update.
  const std::string other = R"(ids { numbers: 2 } update_token: 't'
      attributes { column { attribute: 'version' values { int64_values: 1 } } })";
  EXPECT_THAT(Update(other),
              RefusedWith(kFailedPrecondition,
                          absl::StrCat("update_token: \"t\" is that of another update, which made "
                                       "epoch ",
                                       first.epoch())));
  EXPECT_EQ(CountOf("version == 0"), 4u);
}

}  // namespace
}  // namespace nearfield::server

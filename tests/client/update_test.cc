// Tests of updates of rows and of attributes against a server in this process.
#include "nearfield/client/update.h"

#include <map>
#include <random>

#include "client/formats/attribute_text.h"
#include "nearfield/client/client.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "tests/client/fake_clock.h"
#include "tests/client/prelude.h"
#include "tests/client/random_value.h"
#include "tests/client/test_server.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

using Ids = std::vector<uint64_t>;

AttributeUpdate SetAll(std::string attribute, AttributeValues values) {
  return {.column = {.attribute = std::move(attribute), .values = std::move(values)}};
}

// Collection "c" has rows 1 to 4 of the attributes of EveryAttribute(); "year" is the id, and
// "language" of row 1 is "de".
class UpdateTest : public ::testing::Test {
 protected:
  UpdateTest() { server_.KeepData(); }

  void SetUp() override {
    client_.emplace(MakeClient({.address = server_.address()}, &clock_));
    ASSERT_OK(client_->CreateCollection({.name = "c", .dim = 1, .attributes = EveryAttribute()}));
    ASSERT_OK_AND_ASSIGN(
        auto upload,
        client_->BeginUpload({.collection = "c", .rows_max = 4, .payload_bytes_max = 100}));
    std::string vectors;
    ASSERT_TRUE(Narrow(DataType::kFloat32, std::vector<float>{1, 2, 3, 4}, &vectors));
    const std::vector<std::string> payloads = {"one", "two", "", "four"};
    const std::vector<AttributeColumn> attributes = {
        {.attribute = "year", .values = std::vector<int64_t>{1, 2, 3, 4}},
        {.attribute = "language",
         .values = std::vector<std::string>{"de"},
         .presence = {true, false, false, false}}};
    ASSERT_OK(upload.Write(
        {.ids = &ids_, .vectors = vectors, .payloads = payloads, .attributes = attributes}));
    ASSERT_OK(upload.Commit());
  }

  // Returns one attribute of all rows as JSON.
  std::vector<std::string> Values(const std::string& attribute) {
    const auto rows = client_->Fetch("c", ids_, {.attributes = {attribute}});
    EXPECT_OK(rows);
    return AttributeJson(rows->attributes.at(0), Count(ids_));
  }
  std::vector<std::string> Payloads() { return client_->Fetch("c", ids_)->payloads; }
  v1::UpdateRequest Sent() { return server_.last<v1::UpdateRequest>("Update"); }

  const IdColumn ids_ = Ids{1, 2, 3, 4};
  TestServer server_;
  FakeClock clock_;
  std::optional<Client> client_;
};

TEST_F(UpdateTest, ValuesAndPayloadsChangeAndVectorsStay) {
  ASSERT_OK_AND_ASSIGN(const auto before, client_->Fetch("c", ids_));
  const RowUpdate update = {.attributes = {{.column = {.attribute = "year",
                                                       .values = std::vector<int64_t>{2020, 2021},
                                                       .presence = {true, true, false}}},
                                           {.column = {.attribute = "tags",
                                                       .values = std::vector<std::string>{"a", "b"},
                                                       .presence = {true, false, true},
                                                       .list_sizes = {2, 0}},
                                            .changed = {true, false, true}}},
                            .payloads = {"new", "", ""},
                            .payloads_changed = {true, false, true}};
  ASSERT_OK_AND_ASSIGN(const auto answer, client_->Update("c", Ids{3, 9, 1}, update));
  EXPECT_EQ(answer.epoch, 2u);
  EXPECT_EQ(answer.incarnation, before.incarnation);
  EXPECT_EQ(answer.rows_updated, 2u);
  EXPECT_EQ(answer.missing, IdColumn(Ids{9}));
  EXPECT_EQ(Count(answer.refused), 0u);
  EXPECT_THAT(Values("year"), ElementsAre("null", "2", "2020", "4"));
  EXPECT_THAT(Values("tags"), ElementsAre("[]", "null", "[\"a\",\"b\"]", "null"));
  EXPECT_THAT(Values("language"), ElementsAre("\"de\"", "null", "null", "null"));
  EXPECT_THAT(Payloads(), ElementsAre("", "two", "new", "four"));
  EXPECT_EQ(client_->Fetch("c", ids_)->vectors.bytes, before.vectors.bytes);
  const v1::UpdateRequest sent = Sent();
  EXPECT_FALSE(sent.attributes(0).has_changed());
  EXPECT_EQ(sent.attributes(0).column().presence(), "\x03");
  EXPECT_EQ(sent.attributes(1).changed(), "\x05");
  EXPECT_EQ(sent.payloads().changed(), "\x05");
  EXPECT_FALSE(sent.has_filter_text() || sent.has_if_filter_text() || sent.has_if_epoch() ||
               sent.has_update_token());
}

TEST_F(UpdateTest, AnyUpdatesGiveWhatAModelGives) {
  std::mt19937_64 random(testing::TestSeed());
  std::map<std::string, std::vector<std::string>> model;
  for (const AttributeSpec& spec : EveryAttribute()) model[spec.name] = Values(spec.name);
  for (int round = 0; round < testing::RandomRounds(40); ++round) {
    Ids ids;
    for (uint64_t id = 1; id <= 5; ++id) {  // no row has the last one
      if (random() % 3 > 0) ids.push_back(id);
    }
    if (ids.empty()) continue;
    std::shuffle(ids.begin(), ids.end(), random);
    RowUpdate update;
    for (const AttributeSpec& spec : EveryAttribute()) {
      if (random() % 3 == 0) continue;
      AttributeColumnBuilder builder(spec);
      std::vector<bool> changed;
      for (size_t row = 0; row < ids.size(); ++row) {
        changed.push_back(row == 0 || random() % 3 > 0);
        if (!changed.back() || random() % 4 == 0) {
          builder.AddMissing();
        } else if (spec.is_list) {
          std::vector<AttributeValue> values;
          for (uint64_t i = random() % 3; i > 0; --i)
            values.push_back(RandomValue(random, spec.type));
          ASSERT_OK(builder.AddList(values));
        } else {
          ASSERT_OK(builder.Add(RandomValue(random, spec.type)));
        }
      }
      const AttributeColumn column = builder.Take();
      const std::vector<std::string> values = AttributeJson(column, ids.size());
      for (size_t row = 0; row < ids.size(); ++row) {
        if (changed[row] && ids[row] <= 4) model[spec.name][ids[row] - 1] = values[row];
      }
      update.attributes.push_back({.column = column, .changed = changed});
    }
    if (update.attributes.empty()) continue;
    ASSERT_OK(client_->Update("c", ids, update));
    for (const auto& [name, values] : model) ASSERT_EQ(Values(name), values) << name;
  }
}

TEST_F(UpdateTest, AFilterChoosesRowsThatGetTheSameValues) {
  const RowUpdate update = {.attributes = {SetAll("language", std::vector<std::string>{"fr"}),
                                           {.column = {.attribute = "year", .presence = {false}}}},
                            .payloads = {"p"}};
  ASSERT_OK_AND_ASSIGN(const auto answer, client_->Update("c", Filter("year >= $1", {3}), update));
  EXPECT_EQ(answer.rows_updated, 2u);
  EXPECT_THAT(Values("language"), ElementsAre("\"de\"", "null", "\"fr\"", "\"fr\""));
  EXPECT_THAT(Values("year"), ElementsAre("1", "2", "null", "null"));
  EXPECT_THAT(Payloads(), ElementsAre("one", "two", "p", "p"));
  EXPECT_EQ(Sent().filter_text(), "year >= $1");
  EXPECT_FALSE(Sent().has_ids());
}

TEST_F(UpdateTest, IfFilterIsACompareAndSet) {
  const RowUpdate update = {.attributes = {SetAll("year", std::vector<int64_t>{8, 8})},
                            .if_filter = Filter::Equal("year", 2)};
  ASSERT_OK_AND_ASSIGN(const auto first, client_->Update("c", Ids{3, 2}, update));
  EXPECT_EQ(first.rows_updated, 1u);
  EXPECT_EQ(first.refused, IdColumn(Ids{3}));
  ASSERT_OK_AND_ASSIGN(const auto second, client_->Update("c", Ids{3, 2}, update));
  EXPECT_EQ(second.rows_updated, 0u);
  EXPECT_EQ(second.refused, IdColumn(Ids{3, 2}));
  EXPECT_THAT(Values("year"), ElementsAre("1", "8", "3", "4"));
  EXPECT_EQ(client_->GetCollection("c")->epoch, first.epoch) << "no row changed";
  EXPECT_EQ(Sent().if_filter_args(0).values().int64_values(0), 2);
}

TEST_F(UpdateTest, TheEpochIsACondition) {
  ASSERT_OK_AND_ASSIGN(const auto info, client_->GetCollection("c"));
  RowUpdate update = {.payloads = {"p"}, .if_epoch = info.epoch, .incarnation = info.incarnation};
  ASSERT_OK(client_->Update("c", Ids{1}, update));
  EXPECT_THAT(client_->Update("c", Ids{1}, update), StatusIs(kFailedPrecondition));
  update.if_epoch = info.epoch + 1;
  update.incarnation = info.incarnation + 1;
  EXPECT_THAT(client_->Update("c", Ids{1}, update), StatusIs(kFailedPrecondition));
  EXPECT_EQ(client_->GetCollection("c")->epoch, info.epoch + 1);
}

TEST_F(UpdateTest, OnlyACallWithATokenIsTriedAgainAndItChangesRowsOnce) {
  RowUpdate update = {.attributes = {SetAll("year", std::vector<int64_t>{7})}};
  server_.OnReply<v1::UpdateResponse>("Update", [this](const auto*) -> std::optional<Refusal> {
    if (server_.calls("Update") % 2 == 0) return std::nullopt;
    return Refusal{absl::UnavailableError("broken")};
  });
  EXPECT_THAT(client_->Update("c", Ids{1}, update), StatusIs(kUnavailable));
  EXPECT_EQ(server_.calls("Update"), 1);
  EXPECT_EQ(client_->GetCollection("c")->epoch, 2u);
  ASSERT_OK(client_->Update("c", Ids{2}, update));  // an even call, which passes
  update.token = "t";
  ASSERT_OK_AND_ASSIGN(const auto answer, client_->Update("c", Ids{3}, update));
  EXPECT_EQ(server_.calls("Update"), 4);
  EXPECT_EQ(Sent().update_token(), "t");
  EXPECT_EQ(answer.epoch, 4u);
  EXPECT_EQ(answer.rows_updated, 1u);
  EXPECT_EQ(client_->GetCollection("c")->epoch, 4u);
}

TEST_F(UpdateTest, WhatDoesNotFitIsNamedAndNotSent) {
  const auto refused = [&](const RowUpdate& update, const std::string& message) {
    EXPECT_THAT(client_->Update("c", Ids{1, 2}, update),
                StatusIs(kInvalidArgument, HasSubstr(message)));
  };
  const std::vector<int64_t> two = {1, 2};
  refused({.attributes = {SetAll("year", std::vector<int64_t>{1})}},
          "attributes[0] (year): 1 values for 2 rows that have one");
  refused({.attributes = {{.column = {.attribute = "year", .presence = {true}}}}},
          "attributes[0] (year): 1 presence bits for 2 rows");
  refused({.attributes = {{.column = {.attribute = "year", .values = two}, .changed = {true}}}},
          "attributes[0] (year): changed: 1 bits for 2 rows");
  refused({.attributes = {SetAll("language", std::vector<std::string>{"a", "\xff"})}},
          "attributes[0] (language): value 1: \"\\xff\" is not UTF-8");
  refused({.payloads = {"a"}}, "payloads: 1 for 2 rows");
  refused({.payloads = {"a", "b"}, .payloads_changed = {true}}, "payloads_changed: 1 bits for 2");
  refused({.payloads_changed = {true, true}}, "payloads_changed: 2 bits for 0 rows");
  refused({.payloads = {"a", "b"}, .if_filter = Filter("\xff")}, "if_filter_text: \"\\xff\"");
  refused({.payloads = {"a", "b"}, .if_filter = Filter("year == $1", {"\xff"})},
          "if_filter_args[0][0]: \"\\xff\"");
  EXPECT_THAT(client_->Update("c", Filter("year == 1"), {.payloads = {"a", "b"}}),
              StatusIs(kInvalidArgument,
                       "payloads: 2 for 1 rows; give none, or one a row; with a filter, each "
                       "column has one entry, for all rows"));
  EXPECT_THAT(client_->Update("c", Filter("\xff"), {.payloads = {"a"}}),
              StatusIs(kInvalidArgument, HasSubstr("filter_text: \"\\xff\"")));
  EXPECT_THAT(client_->Update("c", std::vector<std::string>{"\xff"}, {.payloads = {"a"}}),
              StatusIs(kInvalidArgument, HasSubstr("ids[0]: \"\\xff\"")));
  EXPECT_EQ(server_.calls("Update"), 0);
}

TEST_F(UpdateTest, TheServersErrorsComeBack) {
  const RowUpdate update = {.payloads = {"p", "q"}};
  EXPECT_THAT(client_->Update("none", Ids{1, 2}, update), StatusIs(kNotFound));
  EXPECT_THAT(client_->Update("c", Ids{1, 1}, update), StatusIs(kInvalidArgument, HasSubstr("1")));
  EXPECT_THAT(client_->Update("c", Ids{1}, {}), StatusIs(kInvalidArgument));
  EXPECT_THAT(
      client_->Update("c", Ids{1}, {.attributes = {SetAll("yeer", std::vector<int64_t>{1})}}),
      StatusIs(kInvalidArgument));
  EXPECT_THAT(client_->Update("c", Ids{1}, {.payloads = {"p"}, .if_filter = Filter("yeer == 1")}),
              StatusIs(kInvalidArgument, HasSubstr("if_filter_text: column 1: ")));
  server_.OnReply<v1::UpdateResponse>("Update", [](auto* reply) {
    reply->mutable_missing()->add_numbers(1);
    reply->mutable_missing()->add_texts("x");
  });
  EXPECT_THAT(client_->Update("c", Ids{1, 2}, update),
              StatusIs(kInternal, HasSubstr("malformed reply")));
}

TEST_F(UpdateTest, AttributesAreAddedAndDropped) {
  const AttributeSpec until = {"until", AttributeType::kTimestamp, false, true};
  ASSERT_OK_AND_ASSIGN(const auto added, client_->AddAttribute("c", until));
  ASSERT_OK_AND_ASSIGN(auto info, client_->GetCollection("c"));
  EXPECT_EQ(added.epoch, 2u);
  EXPECT_EQ(added.incarnation, info.incarnation);
  EXPECT_EQ(info.spec.attributes.back(), until);
  EXPECT_THAT(Values("until"), Each("null"));
  EXPECT_THAT(client_->AddAttribute("c", until), StatusIs(kInvalidArgument));
  EXPECT_THAT(client_->AddAttribute("none", until), StatusIs(kNotFound));
  ASSERT_OK_AND_ASSIGN(const auto dropped, client_->DropAttribute("c", "until"));
  EXPECT_EQ(dropped.epoch, 3u);
  EXPECT_EQ(dropped.incarnation, info.incarnation);
  EXPECT_EQ(client_->GetCollection("c")->spec.attributes, EveryAttribute());
  EXPECT_THAT(client_->DropAttribute("c", "until"), StatusIs(kNotFound));
  EXPECT_THAT(client_->DropAttribute("c", "\xff"),
              StatusIs(kInvalidArgument, HasSubstr("attribute: \"\\xff\"")));
  // A repeated try would find the attribute as the first one left it.
  for (const std::string method : {"AddAttribute", "DropAttribute"}) {
    server_.Refuse(method, {{absl::UnavailableError("draining")}});
  }
  const int calls = server_.calls("AddAttribute") + server_.calls("DropAttribute");
  EXPECT_THAT(client_->AddAttribute("c", until), StatusIs(kUnavailable));
  EXPECT_THAT(client_->DropAttribute("c", "year"), StatusIs(kUnavailable));
  EXPECT_EQ(server_.calls("AddAttribute") + server_.calls("DropAttribute"), calls + 2);
}

}  // namespace
}  // namespace nearfield::client

// Tests of files with changes of rows.
#include "client/formats/update_file.h"

#include <algorithm>
#include <map>
#include <random>

#include "client/formats/attribute_text.h"
#include "tests/client/prelude.h"
#include "tests/client/random_value.h"
#include "tests/client/test_files.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

// The JSON of each member of each row, by id; "payload" has its bytes.
using Changes = std::map<Id, std::map<std::string, std::string>>;

// Adds the rows that a file returned.
void AddRows(const UpdateRows& rows, Changes* changes) {
  const size_t count = Count(rows.ids);
  for (const auto& [column, changed] : rows.update.attributes) {
    const std::vector<std::string> json = AttributeJson(column, count);
    for (size_t i = 0; i < count; ++i) {
      if (changed.empty() || changed[i]) {
        (*changes)[At(rows.ids, i)][column.attribute] = json[i];
      } else {
        EXPECT_EQ(json[i], "null") << "a row that keeps its value";
      }
    }
  }
  const auto& [payloads, changed] = std::tie(rows.update.payloads, rows.update.payloads_changed);
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (changed.empty() || changed[i]) (*changes)[At(rows.ids, i)]["payload"] = payloads[i];
  }
}

class UpdateFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<UpdateFile> Open(const std::string& text, IdType type = IdType::kUint64) {
    return UpdateFile::Open(folder_.Write("u.jsonl", text), type,
                            {{"year", AttributeType::kInt64},
                             {"tags", AttributeType::kKeyword, true},
                             {"embedding", AttributeType::kDouble}});
  }

  TempFolder folder_;
};

TEST_F(UpdateFileTest, AnyDivisionIntoCallsHasTheSameChanges) {
  std::mt19937_64 random(testing::TestSeed());
  std::vector<AttributeSpec> specs = EveryAttribute();
  std::erase_if(specs, [](const AttributeSpec& spec) { return spec.name == "id"; });
  for (int round = 0; round < testing::RandomRounds(50); ++round) {
    Changes wanted;
    std::string text;
    const uint64_t rows_count = 1 + random() % 20;
    for (uint64_t id = 0; id < rows_count; ++id) {
      std::map<std::string, std::string>& row = wanted[Id(id)];
      std::string line = "{\"id\":" + std::to_string(id);
      for (const AttributeSpec& spec : specs) {
        if (random() % 3 == 0) continue;
        std::string& json = row[spec.name];
        if (random() % 3 == 0) {
          json = "null";
        } else if (spec.is_list) {
          json = "[]";
        } else {
          AttributeColumnBuilder builder(spec);
          ASSERT_OK(builder.Add(RandomValue(random, spec.type)));
          json = AttributeJson(builder.Take(), 1)[0];
        }
        line += "," + QuoteJson(spec.name) + ":" + json;
      }
      if (row.empty() || random() % 2 == 0) {
        row["payload"] = random() % 2 == 0 ? "" : "[1]";
        line += row["payload"].empty() ? ",\"payload\":null" : ",\"payload\":[ 1]";
      }
      text += line + "}\n";
    }
    const std::string path = folder_.Write("u.jsonl", text);
    const size_t rows_max = 1 + random() % 8;
    const uint64_t bytes_max = 1 + random() % 2000;
    ASSERT_OK_AND_ASSIGN(auto file, UpdateFile::Open(path, IdType::kUint64, specs));
    EXPECT_EQ(file.rows_count(), rows_count);
    Changes found;
    for (uint64_t rows_read = 0; rows_read < rows_count;) {
      ASSERT_OK_AND_ASSIGN(const UpdateRows rows, file.Next(rows_max, bytes_max));
      ASSERT_GT(Count(rows.ids), 0u);
      ASSERT_LE(Count(rows.ids), rows_max);
      AddRows(rows, &found);
      rows_read += Count(rows.ids);
    }
    EXPECT_EQ(found, wanted);
  }
}

TEST_F(UpdateFileTest, ColumnsNameTheRowsThatChange) {
  ASSERT_OK_AND_ASSIGN(auto file, Open("{\"id\":\"a\",\"year\":7,\"tags\":null}\n\n"
                                       "{\"year\":null,\"id\":\"b\",\"tags\":[\"x\"]}\n"
                                       "{\"id\":\"c\",\"payload\":\"\",\"tags\":null}\n",
                                       IdType::kString));
  ASSERT_OK_AND_ASSIGN(const UpdateRows rows, file.Next(10, 1000));
  EXPECT_EQ(rows.ids, IdColumn(std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(rows.update.attributes.size(), 2u) << "no row names the third";
  const AttributeUpdate& year = rows.update.attributes[0];
  EXPECT_EQ(year.changed, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(year.column.presence, (std::vector<bool>{true, false, false}));
  EXPECT_THAT(rows.update.attributes[1].changed, IsEmpty()) << "all rows change";
  EXPECT_THAT(rows.update.attributes[1].column.list_sizes, ElementsAre(1));
  EXPECT_THAT(rows.update.payloads, ElementsAre("", "", ""));
  EXPECT_EQ(rows.update.payloads_changed, (std::vector<bool>{false, false, true}));
}

TEST_F(UpdateFileTest, ErrorsNameFilePlaceAndReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "u.jsonl: holds no row"},
      {"[1]\n", "u.jsonl: line 1: "},
      {"{\"year\":1}\n", "line 1: no \"id\""},
      {"\n{\"id\":1}\n", "line 2: nothing to change: neither an attribute nor a payload"},
      {"{\"id\":\"a\",\"year\":1}\n",
       "line 1: the id is of type string, the collection's are of type uint64"},
      {"{\"id\":1,\"year\":\"1\"}\n", "line 1: year: \"1\" is a string; expected an int64"},
      {"{\"id\":1,\"yeer\":1}\n",
       "unknown member \"yeer\"; a row has id, vector, payload, year, tags, embedding"},
      {"{\"id\":1,\"year\":1,\"year\":1}\n", "line 1: year: given twice"},
      {"{\"id\":1,\"payload\":1,\"payload\":null}\n", "member \"payload\" twice"},
      {"{\"id\":1,\"year\":1,\"vector\":[1]}\n",
       "line 1: vector: an update cannot change it; upload the row with --mode upsert"},
      {"{\"id\":7,\"year\":1}\n{\"id\":8,\"year\":1}\n{\"id\":7,\"year\":2}\n",
       "u.jsonl: ids: 7 occurs twice"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(Open(text), StatusIs(kInvalidArgument, HasSubstr(message))) << text;
  }
  EXPECT_OK(Open("{\"id\":1,\"embedding\":0.5}\n"));  // an attribute, not a vector
  EXPECT_THAT(UpdateFile::Open("/nonexistent.jsonl", IdType::kUint64, {}), StatusIs(kNotFound));
}

}  // namespace
}  // namespace nearfield::client

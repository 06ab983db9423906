// Rows of .csv files. That the Python client reads the same ones is in
// tests/python/test_exports.py.
#include <utility>

#include "client/formats/named_bytes.h"
#include "client/formats/text_rows.h"
#include "tests/client/prelude.h"
#include "tests/client/test_files.h"

namespace nearfield::client {
namespace {

const std::vector<AttributeSpec> kColumnSpecs = {
    {"year", AttributeType::kInt64},     {"good", AttributeType::kBool},
    {"made", AttributeType::kTimestamp}, {"tags", AttributeType::kKeyword, true},
    {"score", AttributeType::kDouble},   {"id", AttributeType::kKeyword}};

struct Found {
  std::vector<TextRow> rows;
  std::vector<AttributeColumn> attributes;
};

// Returns all rows, or an error that begins with its place.
absl::StatusOr<Found> Read(std::string_view text, IdType id_type = IdType::kUint64) {
  const auto rows = MakeCsvRows(text, id_type, kColumnSpecs);
  AttributeReader attributes(kColumnSpecs);
  Found found;
  absl::Status status = rows->Begin();
  for (TextRow row; status.ok();) {
    const absl::StatusOr<bool> there = rows->Next(&row, &attributes);
    status = there.status();
    if (there.ok() && !*there) break;
    found.rows.push_back(row);
  }
  if (!status.ok()) return BadFile("r.csv", rows->place(), status.message());
  found.attributes = attributes.Take();
  return found;
}

TEST(CsvRows, CellsAreThePartsOfTheRows) {
  ASSERT_OK_AND_ASSIGN(const Found found,
                       Read("\xef\xbb\xbf\r\npayload,id,vector,attribute_score\r\n"
                            "\"{ \"\"a\"\": 1,\r\n2}\",7,\" [1, -0]\",inf\r\n\r\n"
                            "null,18446744073709551615,\"[0.1,\n1e-50]\",\r\n"
                            ",8,\"[3]\",\"-1\"\r"));
  ASSERT_EQ(found.rows.size(), 3u);
  EXPECT_EQ(found.rows[0].id, Id(uint64_t{7}));
  EXPECT_EQ(found.rows[0].payload, "{ \"a\": 1,\r\n2}");
  EXPECT_EQ(Bytes(found.rows[0].vector), Bytes(std::vector<float>{1, -0.0F}));
  EXPECT_EQ(found.rows[1].id, Id(~uint64_t{0}));
  EXPECT_EQ(found.rows[1].payload, "null");
  EXPECT_EQ(Bytes(found.rows[1].vector), Bytes(std::vector<float>{0.1F, 0}));
  EXPECT_EQ(found.rows[2].payload, "");
  ASSERT_EQ(found.attributes.size(), 1u);
  EXPECT_EQ(found.attributes[0].attribute, "score");
}

TEST(CsvRows, AttributesMayHaveTheFormsOfPandas) {
  const std::string head = "id,vector,good,made,tags\n";
  ASSERT_OK_AND_ASSIGN(const Found json,
                       Read(head + "a,[1],true,2024-05-17T09:30:00.25+00:00,\n", IdType::kString));
  ASSERT_OK_AND_ASSIGN(
      const Found pandas,
      Read(head + "a,[1],True,2024-05-17 09:30:00.25+00:00, null\n", IdType::kString));
  ASSERT_EQ(json.attributes.size(), 2u);
  ASSERT_EQ(pandas.attributes.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(pandas.attributes[i].values, json.attributes[i].values);
}

TEST(CsvRows, MistakesNameTheirLineAndColumn) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 0: expected the names of the columns"},
      {"1,2\n3,4\n", "line 1: no column \"id\"; the first line names the columns: id, vector"},
      {"\nid,vector,id\n", "line 2: column \"id\" twice"},
      {"id,vector,yaer\n", "line 1: unknown column \"yaer\"; a row has id, vector, payload, year"},
      {"id,vector,score,attribute_score\n", "line 1: unknown column \"score\""},
      {"id,vector,attribute_id\n", "line 1: an attribute \"id\" cannot be read"},
      {"id,vector\n1,\"[1\n,2]\"\n2,\"[1\"\n", "line 4: vector: column"},
      {"id,vector\n1,\"{}\"\n", "line 2: vector: expected a JSON array"},
      {"id,vector\n1,[]\n", "line 2: vector: empty"},
      {"id,vector\n1,[true]\n", "line 2: vector: element 0 is true"},
      {"id,vector\n1,[1e39]\n", "line 2: vector: element 0 is 1e39"},
      {"id,vector\n\"\",[1]\n", "line 2: an empty id"},
      {"id,vector\nx,[1]\n", "line 2: id \"x\" is not a whole number"},
      {"id,vector\n1,[1],3\n", "line 2: 3 cells, the first line has 2"},
      {"id,vector\n1,a\"b\"\n", "line 2: cell 2: a quote in the middle"},
      {"id,vector,year\n1,[1],\n\n2,[1],1.5\n", "line 4: year: \"1.5\" is not a whole number"},
      {"payload,id,vector\n\xff,1,[1]\n", "line 2: payload: not UTF-8"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(Read(text), StatusIs(kInvalidArgument, HasSubstr("r.csv: " + words))) << text;
  }
}

}  // namespace
}  // namespace nearfield::client

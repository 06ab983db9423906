// Feeds arbitrary bytes to every reader of the client. The first byte chooses the reader; the rest
// is its file. No reader may read out of bounds. Accepted input must have its stated size; JSON
// must stay JSON, and times must be printed and parsed back unchanged.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/json_output.h"
#include "client/cli/payload_columns.h"
#include "client/formats/attribute_reader.h"
#include "client/formats/csv.h"
#include "client/formats/id_file.h"
#include "client/formats/json_text.h"
#include "client/formats/jsonl.h"
#include "client/formats/query_set.h"
#include "client/formats/text_rows.h"
#include "client/formats/vector_file.h"
#include "client/value_text/timestamp_text.h"
#include "tests/fuzz/require.h"

namespace nearfield::client {
namespace {

void ReadVectors(std::string_view bytes, FileFormat format, std::optional<DataType> dtype) {
  const NamedBytes file{.name = "in", .bytes = bytes};
  const auto layout = ParseLayout(file, format, dtype);
  if (!layout.ok()) return;
  std::string rows;
  const absl::Status status = AppendRows(file, *layout, 0, layout->rows_count, &rows);
  if (status.ok()) Require(rows.size() == layout->rows_count * layout->row_bytes());
}

void ReadText(std::string_view text) {
  const auto queries = ParseQueries({.name = "in", .bytes = text});
  if (queries.ok()) {
    for (const std::string& vector : queries->vectors)
      Require(!vector.empty() && vector.size() % 4 == 0);
  }
  if (const auto row = ParseJsonRow(text); row.ok()) Require(!row->vector.empty());
  Require(CheckJson(QuoteJson(text)).ok());
  Require(CheckJson(JsonObject().AddPayload(text).ToString()).ok());
  PayloadCells(text, {"a", "id"});
  const std::string payload = PayloadJson(text);
  Require(CheckJson(payload).ok() && payload.find('\n') == std::string::npos);
  Require(PayloadBytes(payload).value_or("not base64") == text);
  const bool json = CheckJson(text).ok();
  const std::string compact = CompactJson(text);
  Require(compact.size() <= text.size());
  if (json) {
    Require(CheckJson(compact).ok() && CompactJson(compact) == compact);
    if (TrimJson(text).front() == '{') Require(JsonMembers(text).ok());
    if (TrimJson(text).front() == '[') Require(JsonElements(text).ok());
  }
  // Text that is not JSON must not lead these functions out of bounds.
  static_cast<void>(JsonMembers(text).ok());
  static_cast<void>(JsonElements(text).ok());
  static_cast<void>(JsonFloats(text).ok());
  static_cast<void>(JsonId(text).ok());
}

const std::vector<AttributeSpec>& Attributes() {
  static const std::vector<AttributeSpec> attributes = {
      {"n", AttributeType::kInt64},        {"x", AttributeType::kDouble},
      {"b", AttributeType::kBool},         {"k", AttributeType::kKeyword},
      {"t", AttributeType::kTimestamp},    {"ks", AttributeType::kKeyword, true},
      {"ns", AttributeType::kInt64, true}, {"id", AttributeType::kInt64}};
  return attributes;
}

void ReadCsv(std::string_view text) {
  CsvReader reader(text);
  std::vector<CsvCell> cells;
  std::vector<size_t> columns(Attributes().size());
  AttributeReader attributes(Attributes());
  for (;;) {
    const auto there = reader.Next(&cells);
    if (!there.ok() || !*there) break;
    Require(!cells.empty());
    for (size_t i = 0; i < columns.size(); ++i) columns[i] = i % cells.size();
    if (!attributes.AddRow(cells, columns).ok()) break;
    for (const AttributeColumn& column : attributes.Take()) Require(column.presence.empty());
  }
  if (const auto time = ParseTimestamp(text); time.ok()) {
    Require(*ParseTimestamp(TimestampText(*time)) == *time);
  }
}

void ReadCsvRows(std::string_view text, IdType id_type) {
  const auto rows = MakeCsvRows(text, id_type, Attributes());
  if (!rows->Begin().ok()) return;
  AttributeReader attributes(Attributes());
  TextRow row;
  for (auto there = rows->Next(&row, &attributes); there.ok() && *there;
       there = rows->Next(&row, &attributes)) {
    Require(!row.vector.empty() && row.id && TypeOf(*row.id) == id_type);
  }
}

}  // namespace

static void Run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  switch (static_cast<uint8_t>(input[0]) % 8) {
    case 0: ReadVectors(bytes, FileFormat::kNpy, std::nullopt); break;
    case 1: ReadVectors(bytes, FileFormat::kNpy, DataType::kBFloat16); break;
    case 2: ReadVectors(bytes, FileFormat::kFbin, std::nullopt); break;
    case 3: ReadVectors(bytes, FileFormat::kFvecs, std::nullopt); break;
    case 4:
      for (const char* name : {"in.npy", "in.jsonl", "in.txt"}) {
        static_cast<void>(ParseIds({.name = name, .bytes = bytes}, std::nullopt).ok());
        static_cast<void>(ParseIds({.name = name, .bytes = bytes}, IdType::kUint64).ok());
      }
      break;
    case 7:
      ReadCsv(bytes);
      for (const IdType type : {IdType::kUint64, IdType::kString}) ReadCsvRows(bytes, type);
      break;
    default: ReadText(bytes);
  }
}

}  // namespace nearfield::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::client::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}

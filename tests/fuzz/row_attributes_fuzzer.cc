// Takes arbitrary bytes as the stored attributes of a row, preceded by bytes that define the
// schema. They must be refused, or equal the encoder's output for the values that they hold, and
// those values can be indexed and read back.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/attributes/chunk.h"
#include "server/attributes/row_encoding.h"
#include "server/attributes/row_reader.h"
#include "tests/fuzz/require.h"

namespace nearfield::server {
namespace {

// Makes a schema from one byte per attribute: its type, and whether it is a list.
AttributeSchema SchemaOf(std::string_view bytes) {
  std::vector<AttributeSpec> specs;
  for (const char byte : bytes) {
    const auto bits = static_cast<uint8_t>(byte);
    specs.push_back({.name = absl::StrCat("a", specs.size()),
                     .type = static_cast<AttributeType>(1 + bits % 5),
                     .is_list = bits >= 128});
  }
  return *AttributeSchema::Create(std::move(specs), {});
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const size_t attributes = std::min<size_t>(static_cast<uint8_t>(input[0]) % 8, input.size() - 1);
  const AttributeSchema schema = SchemaOf(input.substr(1, attributes));
  const std::string_view row = input.substr(1 + attributes);
  BytesColumn rows;
  rows.Append(row);
  const auto block = DecodeRowAttributes(schema, rows);
  if (!block.ok()) {
    Require(block.status().code() == absl::StatusCode::kDataLoss);
    return;
  }
  const auto encoded = EncodeRowAttributes(schema, *block, {.row_bytes_max = 1 << 30});
  Require(encoded.ok() && encoded->size() == 1 && encoded->at(0) == row);
  AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema));
  Require(builder.Append(*block).ok());
  const auto chunks = builder.Build(0);
  Require(chunks.ok() && chunks->size() == 1 && (*chunks)[0]->rows_count() == 1);
  AttributeSnapshot snapshot = {.schema = std::make_shared<AttributeSchema>(schema),
                                .chunks = *chunks};
  const auto found = RowReader::Find(std::make_shared<AttributeSnapshot>(std::move(snapshot)), {0});
  Require(found.ok());
  AttributeBlock read = {.rows_count = 1, .columns = {}};
  for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
    read.columns.push_back(found->Read(attribute, 1));
  }
  const auto again = EncodeRowAttributes(schema, read, {.row_bytes_max = 1 << 30});
  Require(again.ok() && again->at(0) == row);
}

}  // namespace
}  // namespace nearfield::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::server::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}

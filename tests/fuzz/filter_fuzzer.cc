// Takes arbitrary bytes as a filter: as a text, as a request in protobuf, or as instructions that
// make arguments and a text, so that inputs get past the parser. The filter must be refused with a
// printable error, or pass the same rows as the slow reference PassingRows. An accepted text must
// be printed and parsed back unchanged.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/filter_text.h"
#include "server/convert/filter.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_printer.h"

namespace nearfield::server {
namespace {

using fuzz::InputReader;

const std::vector<AttributeSpec>& Specs() {
  static const auto* const specs = new std::vector<AttributeSpec>{
      {.name = "i"},
      {.name = "d", .type = AttributeType::kDouble},
      {.name = "b", .type = AttributeType::kBool},
      {.name = "k", .type = AttributeType::kKeyword},
      {.name = "t", .type = AttributeType::kTimestamp},
      {.name = "is", .is_list = true},
      {.name = "ks", .type = AttributeType::kKeyword, .is_list = true}};
  return *specs;
}

struct Rows {
  std::vector<PlainRow> plain;
  std::unique_ptr<AttributeColumns> columns;
};

// Returns the rows, which are the same for every input.
const Rows& TheRows() {
  static const Rows* const rows = [] {
    testing::Random random(1);
    auto* const made = new Rows;
    made->plain = RandomRows(random, Specs(), 70);
    made->columns = ColumnsOf(*AttributeSchema::Create(Specs(), {}), made->plain, {3, 40});
    return made;
  }();
  return *rows;
}

int64_t TakeInteger(InputReader& reader) {
  const uint64_t kind = reader.Take(1);
  if (kind < 16) return static_cast<int64_t>(reader.Take(8));
  return static_cast<int64_t>(kind % 24) - 12;
}

double TakeDouble(InputReader& reader) {
  const uint64_t kind = reader.Take(1);
  if (kind < 16) return std::bit_cast<double>(reader.Take(8));
  return static_cast<double>(kind % 24) / 2 - 6;
}

void TakeArgument(InputReader& reader, pb::FilterArgument* argument) {
  const uint64_t kind = reader.Take(1) % 8;
  pb::AttributeValues* const values = kind < 6 ? argument->mutable_values() : nullptr;
  if (kind == 6) argument->mutable_ids();
  for (uint64_t count = reader.Take(1) % 6; count > 0; --count) {
    switch (kind) {
      case 0: values->add_int64_values(TakeInteger(reader)); break;
      case 1: values->add_double_values(TakeDouble(reader)); break;
      case 2: values->add_bool_values(reader.Take(1) % 2 == 1); break;
      case 3: values->add_keyword_values(std::string(reader.TakeBytes(3))); break;
      case 4: values->add_timestamp_us_values(TakeInteger(reader)); break;
      case 6: argument->mutable_ids()->add_numbers(reader.Take(1)); break;
      default: break;  // no value, or no argument
    }
  }
}

void RequireReadable(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(status.message().substr(0, 6) == "filter");
  for (const char c : std::string(status.message())) Require(c >= ' ' && c < 0x7f);
}

void RunFilter(const absl::StatusOr<Filter>& filter) {
  if (!filter.ok()) return RequireReadable(filter.status());
  const Rows& rows = TheRows();
  const auto passing =
      Evaluate(*filter, *rows.columns->Snapshot(), IdsAreOrdinals(std::ssize(rows.plain)));
  Require(passing.ok());
  Require(passing->ToVector() == PassingRows(filter->tree(), Specs(), rows.plain));
}

void RunText(std::string_view text) {
  const std::shared_ptr<const AttributeSnapshot> rows = TheRows().columns->Snapshot();
  const AttributeSchema& schema = *rows->schema;
  for (const IdType id_type : {IdType::kString, IdType::kUint64}) {
    const auto tree = ParseFilterText(text, {}, id_type, schema, {});
    if (!tree.ok()) {
      RequireReadable(tree.status());
      continue;
    }
    Require(IsTree(*tree));
    if (id_type == IdType::kUint64) RunFilter(Filter(*tree, schema));
    const std::string printed = TextOf(*tree);
    // A printed time may be longer than the number in the text.
    if (static_cast<int64_t>(printed.size()) > AttributeLimits().filter_text_bytes_max) continue;
    const auto again = ParseFilterText(printed, {}, id_type, schema, {});
    Require(again.ok() && CanonicalBytes(*again) == CanonicalBytes(*tree));
    Require(TextOf(*again) == printed);
  }
}

void RunRequest(const pb::CountRequest& request) {
  const GivenFilter given = FilterOf(request);
  if (given.given())
    RunFilter(FromProto(given, IdType::kUint64, *TheRows().columns->Snapshot()->schema));
}

void Run(std::string_view input) {
  if (input.empty()) return;
  if (input[0] % 4 == 1) return RunText(input.substr(1));
  pb::CountRequest request;
  if (input[0] % 4 == 0) {
    google::protobuf::SetLogHandler(nullptr);  // texts that are not UTF-8 are expected here
    if (!request.ParseFromArray(input.data() + 1, static_cast<int>(input.size() - 1))) return;
  } else {
    InputReader reader(input.substr(1));
    for (uint64_t count = reader.Take(1) % 4; count > 0; --count) {
      TakeArgument(reader, request.add_filter_args());
    }
    request.set_filter_text(std::string(reader.TakeRest()));
  }
  RunRequest(request);
}

}  // namespace
}  // namespace nearfield::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::server::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}

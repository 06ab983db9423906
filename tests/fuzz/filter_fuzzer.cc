// Takes arbitrary bytes as a filter: as a text, as a protobuf message, or as instructions that
// build a message, so that inputs get past the parser. The filter must be refused with a printable
// error, or pass the same rows as the slow reference PassingRows. An accepted text must be printed
// and parsed back unchanged.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nearfield/v1/common.pb.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/filter_text.h"
#include "server/convert/filter.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"
#include "tests/server/attributes/attribute_rows.h"
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

std::string TakeName(InputReader& reader) {
  const uint64_t which = reader.Take(1);
  return which < 250 ? Specs()[which % Specs().size()].name : std::string(reader.TakeBytes(3));
}

// Returns the attribute's own type in most cases, else another one.
AttributeType TypeFor(const std::string& name, InputReader& reader) {
  for (const AttributeSpec& spec : Specs()) {
    if (spec.name == name && reader.Take(1) < 250) return spec.type;
  }
  return static_cast<AttributeType>(1 + reader.Take(1) % 5);
}

void TakeValue(AttributeType type, InputReader& reader, pb::AttributeValue* value) {
  switch (type) {
    case AttributeType::kInt64: return value->set_int64_value(TakeInteger(reader));
    case AttributeType::kDouble: return value->set_double_value(TakeDouble(reader));
    case AttributeType::kBool: return value->set_bool_value(reader.Take(1) % 2 == 1);
    case AttributeType::kKeyword: return value->set_keyword_value(std::string(reader.TakeBytes(3)));
    case AttributeType::kTimestamp: return value->set_timestamp_us_value(TakeInteger(reader));
  }
}

void TakeValues(InputReader& reader, pb::ValueCondition* condition) {
  condition->set_attribute(TakeName(reader));
  const AttributeType type = TypeFor(condition->attribute(), reader);
  pb::AttributeValues* const values = condition->mutable_values();
  for (uint64_t count = reader.Take(1) % 6; count > 0; --count) {
    switch (type) {
      case AttributeType::kInt64: values->add_int64_values(TakeInteger(reader)); break;
      case AttributeType::kDouble: values->add_double_values(TakeDouble(reader)); break;
      case AttributeType::kBool: values->add_bool_values(reader.Take(1) % 2 == 1); break;
      case AttributeType::kKeyword:
        values->add_keyword_values(std::string(reader.TakeBytes(3)));
        break;
      case AttributeType::kTimestamp: values->add_timestamp_us_values(TakeInteger(reader)); break;
    }
  }
}

// `levels` bounds this recursion. Run passes one more than the server's limit.
void TakeFilter(int levels, InputReader& reader, pb::Filter* filter) {
  const uint64_t kind = reader.Take(1) % (levels > 1 ? 9 : 6);
  const auto take_list = [&](pb::FilterList* list) {
    for (uint64_t count = reader.Take(1) % 4; count > 0 && !reader.empty(); --count)
      TakeFilter(levels - 1, reader, list->add_filters());
  };
  switch (kind) {
    case 0:
      filter->mutable_comparison()->set_attribute(TakeName(reader));
      filter->mutable_comparison()->set_op(static_cast<pb::ComparisonOperator>(reader.Take(1) % 8));
      return TakeValue(TypeFor(filter->comparison().attribute(), reader), reader,
                       filter->mutable_comparison()->mutable_value());
    case 1: return TakeValues(reader, filter->mutable_in_());
    case 2: return TakeValues(reader, filter->mutable_list_any());
    case 3: return TakeValues(reader, filter->mutable_list_all());
    case 4: return filter->mutable_exists()->set_attribute(TakeName(reader));
    case 5:
      for (uint64_t count = reader.Take(1) % 4; count > 0; --count)
        filter->mutable_has_id()->add_numbers(reader.Take(1));
      return;
    case 6: return take_list(filter->mutable_and_());
    case 7: return take_list(filter->mutable_or_());
    default: return TakeFilter(levels - 1, reader, filter->mutable_not_());
  }
}

void RequireReadable(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(status.message().substr(0, 6) == "filter");
  for (const char c : std::string(status.message())) Require(c >= ' ' && c < 0x7f);
}

void RunFilter(const absl::StatusOr<FilterTree>& tree) {
  if (!tree.ok()) return RequireReadable(tree.status());
  const Rows& rows = TheRows();
  const auto filter = ValidateFilter(*tree, rows.columns->schema(), {});
  if (!filter.ok()) return RequireReadable(filter.status());
  const auto passing =
      Evaluate(*filter, *rows.columns->Snapshot(), IdsAreOrdinals(std::ssize(rows.plain)));
  Require(passing.ok() && passing->ToVector() == PassingRows(*tree, Specs(), rows.plain));
}

void RunText(std::string_view text) {
  const AttributeSchema& schema = TheRows().columns->schema();
  for (const IdType id_type : {IdType::kString, IdType::kUint64}) {
    const auto tree = ParseFilterText(text, id_type, schema, {});
    if (id_type == IdType::kUint64) RunFilter(tree);
    if (!tree.ok()) {
      RequireReadable(tree.status());
      continue;
    }
    Require(IsTree(*tree) && ValidateFilter(*tree, schema, {}).ok());
    const std::string printed = TextOf(*tree);
    // A printed time may be longer than the number in the text.
    if (static_cast<int64_t>(printed.size()) > AttributeLimits().filter_text_bytes_max) continue;
    const auto again = ParseFilterText(printed, id_type, schema, {});
    Require(again.ok() && CanonicalBytes(*again) == CanonicalBytes(*tree));
    Require(TextOf(*again) == printed);
  }
}

void Run(std::string_view input) {
  if (input.empty()) return;
  if (input[0] % 4 == 1) return RunText(input.substr(1));
  pb::Filter message;
  if (input[0] % 4 == 0) {
    google::protobuf::SetLogHandler(nullptr);  // texts that are not UTF-8 are expected here
    if (!message.ParseFromArray(input.data() + 1, static_cast<int>(input.size() - 1))) return;
  } else {
    InputReader reader(input.substr(1));
    TakeFilter(9, reader, &message);
  }
  RunFilter(FromProto(message, IdType::kUint64, {}));
}

}  // namespace
}  // namespace nearfield::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::server::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}

#include "tests/server/attributes/filter_messages.h"

#include <cstdint>
#include <string>
#include <variant>

namespace nearfield::server {
namespace {

namespace pb = ::nearfield::v1;

void ToMessage(const ValueColumn& values, pb::AttributeValues* message) {
  for (int64_t i = 0; i < values.size(); ++i) {
    switch (values.type()) {
      case AttributeType::kInt64: message->add_int64_values(values.bits(i)); break;
      case AttributeType::kDouble: message->add_double_values(values.number(i)); break;
      case AttributeType::kBool: message->add_bool_values(values.bits(i) == 1); break;
      case AttributeType::kKeyword:
        message->add_keyword_values(std::string(values.keyword(i)));
        break;
      case AttributeType::kTimestamp: message->add_timestamp_us_values(values.bits(i)); break;
    }
  }
}

}  // namespace

void ToMessage(const FilterArgument& argument, pb::FilterArgument* message) {
  if (const auto* values = std::get_if<ValueColumn>(&argument)) {
    return ToMessage(*values, message->mutable_values());
  }
  const auto& ids = std::get<IdColumn>(argument);
  pb::IdList* const list = message->mutable_ids();
  for (int64_t i = 0; i < ids.size(); ++i) {
    if (ids.type() == IdType::kUint64) {
      list->add_numbers(ids.number(i));
    } else {
      list->add_texts(std::string(ids.string(i)));
    }
  }
}

void ToMessages(const AttributeSchema& schema, const AttributeBlock& block,
                google::protobuf::RepeatedPtrField<pb::AttributeColumn>* columns) {
  for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
    const AttributeColumn& column = block.columns[static_cast<size_t>(attribute)];
    pb::AttributeColumn* const message = columns->Add();
    message->set_attribute(schema.at(attribute).name);
    ToMessage(column.values, message->mutable_values());
    std::string presence((column.present.size() + 7) / 8, '\0');
    for (size_t row = 0; row < column.present.size(); ++row) {
      if (column.present[row])
        presence[row / 8] = static_cast<char>(presence[row / 8] | (1 << (row % 8)));
    }
    message->set_presence(presence);
    for (const uint32_t size : column.list_sizes) message->add_list_sizes(size);
  }
}

}  // namespace nearfield::server

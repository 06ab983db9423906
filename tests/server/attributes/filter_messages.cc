#include "tests/server/attributes/filter_messages.h"

#include <string>

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

void ToMessage(const ValueColumn& value, pb::AttributeValue* message) {
  switch (value.type()) {
    case AttributeType::kInt64: return message->set_int64_value(value.bits(0));
    case AttributeType::kDouble: return message->set_double_value(value.number(0));
    case AttributeType::kBool: return message->set_bool_value(value.bits(0) == 1);
    case AttributeType::kKeyword: return message->set_keyword_value(std::string(value.keyword(0)));
    case AttributeType::kTimestamp: return message->set_timestamp_us_value(value.bits(0));
  }
}

void ToMessage(const Condition& condition, pb::ValueCondition* message) {
  message->set_attribute(condition.attribute);
  ToMessage(condition.values, message->mutable_values());
}

}  // namespace

void ToMessage(const FilterTree& tree, int32_t place, pb::Filter* message) {
  const Condition& condition = tree.conditions[static_cast<size_t>(place)];
  switch (condition.kind) {
    case ConditionKind::kAnd:
      for (const int32_t child : condition.children)
        ToMessage(tree, child, message->mutable_and_()->add_filters());
      return;
    case ConditionKind::kOr:
      for (const int32_t child : condition.children)
        ToMessage(tree, child, message->mutable_or_()->add_filters());
      return;
    case ConditionKind::kNot:
      return ToMessage(tree, condition.children[0], message->mutable_not_());
    case ConditionKind::kComparison:
      message->mutable_comparison()->set_attribute(condition.attribute);
      message->mutable_comparison()->set_op(
          static_cast<pb::ComparisonOperator>(static_cast<int>(condition.comparison) + 1));
      return ToMessage(condition.values, message->mutable_comparison()->mutable_value());
    case ConditionKind::kIn: return ToMessage(condition, message->mutable_in_());
    case ConditionKind::kListAny: return ToMessage(condition, message->mutable_list_any());
    case ConditionKind::kListAll: return ToMessage(condition, message->mutable_list_all());
    case ConditionKind::kExists:
      return message->mutable_exists()->set_attribute(condition.attribute);
    case ConditionKind::kHasId:
      for (int64_t i = 0; i < condition.ids.size(); ++i)
        message->mutable_has_id()->add_numbers(condition.ids.number(i));
      return;
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

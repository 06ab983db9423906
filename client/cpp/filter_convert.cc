#include "client/cpp/filter_convert.h"

#include <string>
#include <utility>

#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

static_assert(static_cast<int>(AttributeType::kInt64) == v1::ATTRIBUTE_TYPE_INT64);
static_assert(static_cast<int>(AttributeType::kTimestamp) == v1::ATTRIBUTE_TYPE_TIMESTAMP);

using Kind = Filter::Kind;

v1::ComparisonOperator OperatorOf(Kind kind) {
  switch (kind) {
    case Kind::kEqual: return v1::COMPARISON_OPERATOR_EQUAL;
    case Kind::kNotEqual: return v1::COMPARISON_OPERATOR_NOT_EQUAL;
    case Kind::kLess: return v1::COMPARISON_OPERATOR_LESS;
    case Kind::kLessEqual: return v1::COMPARISON_OPERATOR_LESS_EQUAL;
    case Kind::kGreater: return v1::COMPARISON_OPERATOR_GREATER;
    default: return v1::COMPARISON_OPERATOR_GREATER_EQUAL;
  }
}

int64_t Microseconds(Timestamp time) { return time.time_since_epoch().count(); }

// Add one value of each type.
void Add(int64_t value, v1::AttributeValues* proto) { proto->add_int64_values(value); }
void Add(double value, v1::AttributeValues* proto) { proto->add_double_values(value); }
void Add(bool value, v1::AttributeValues* proto) { proto->add_bool_values(value); }
void Add(const std::string& value, v1::AttributeValues* proto) { proto->add_keyword_values(value); }
void Add(Timestamp value, v1::AttributeValues* proto) {
  proto->add_timestamp_us_values(Microseconds(value));
}

absl::Status ValueToProto(const AttributeValue& value, const std::string& path,
                          v1::AttributeValue* proto) {
  const AttributeValue::Variant& variant = value.variant();
  if (const auto* keyword = std::get_if<std::string>(&variant)) {
    NF_RETURN_IF_ERROR(CheckText(path, *keyword));
    proto->set_keyword_value(*keyword);
  } else if (const auto* number = std::get_if<int64_t>(&variant)) {
    proto->set_int64_value(*number);
  } else if (const auto* real = std::get_if<double>(&variant)) {
    proto->set_double_value(*real);
  } else if (const auto* truth = std::get_if<bool>(&variant)) {
    proto->set_bool_value(*truth);
  } else {
    proto->set_timestamp_us_value(Microseconds(std::get<Timestamp>(variant)));
  }
  return absl::OkStatus();
}

absl::Status ValuesToProto(const Filter& filter, const std::string& path,
                           v1::ValueCondition* proto) {
  NF_RETURN_IF_ERROR(CheckText(Cat(path, ".attribute"), filter.attribute()));
  proto->set_attribute(filter.attribute());
  v1::AttributeValues* values = proto->mutable_values();
  for (size_t i = 0; i < filter.values().size(); ++i) {
    const AttributeValue& value = filter.values()[i];
    const AttributeValue& first = filter.values().front();
    const std::string place = Cat(path, ".values[", i, "]");
    if (value.type() != first.type()) {
      return absl::InvalidArgumentError(
          Cat(place, ": ", WithArticle(value.type()), " among ", Name(first.type()), " values"));
    }
    if (const auto* keyword = std::get_if<std::string>(&value.variant())) {
      NF_RETURN_IF_ERROR(CheckText(place, *keyword));
    }
    std::visit([&](const auto& typed) { Add(typed, values); }, value.variant());
  }
  return absl::OkStatus();
}

absl::Status Convert(const Filter& filter, const std::string& path, size_t level,
                     v1::Filter* proto);

absl::Status ConvertOperands(const Filter& filter, const std::string& path, size_t level,
                             v1::FilterList* proto) {
  for (size_t i = 0; i < filter.operands().size(); ++i) {
    NF_RETURN_IF_ERROR(
        Convert(filter.operands()[i], Cat(path, "[", i, "]"), level + 1, proto->add_filters()));
  }
  return absl::OkStatus();
}

absl::Status ConvertComparison(const Filter& filter, const std::string& path,
                               v1::Comparison* proto) {
  NF_RETURN_IF_ERROR(CheckText(Cat(path, ".attribute"), filter.attribute()));
  proto->set_attribute(filter.attribute());
  proto->set_op(OperatorOf(filter.kind()));
  return ValueToProto(filter.values().front(), Cat(path, ".value"), proto->mutable_value());
}

absl::Status Convert(const Filter& filter, const std::string& path, size_t level,
                     v1::Filter* proto) {
  if (level > kFilterLevelsMax) {
    return absl::InvalidArgumentError(
        Cat(path, ": level ", level, ", a filter has at most ", kFilterLevelsMax));
  }
  switch (filter.kind()) {
    case Kind::kAnd:
      return ConvertOperands(filter, Cat(path, ".and"), level, proto->mutable_and_());
    case Kind::kOr: return ConvertOperands(filter, Cat(path, ".or"), level, proto->mutable_or_());
    case Kind::kNot:
      return Convert(filter.operands().front(), Cat(path, ".not"), level + 1,
                     proto->mutable_not_());
    case Kind::kIn: return ValuesToProto(filter, Cat(path, ".in"), proto->mutable_in_());
    case Kind::kListAny:
      return ValuesToProto(filter, Cat(path, ".list_any"), proto->mutable_list_any());
    case Kind::kListAll:
      return ValuesToProto(filter, Cat(path, ".list_all"), proto->mutable_list_all());
    case Kind::kExists:
      NF_RETURN_IF_ERROR(CheckText(Cat(path, ".exists.attribute"), filter.attribute()));
      proto->mutable_exists()->set_attribute(filter.attribute());
      return absl::OkStatus();
    case Kind::kHasId:
      NF_RETURN_IF_ERROR(CheckText(Cat(path, ".has_id"), filter.ids()));
      ToProto(filter.ids(), 0, Count(filter.ids()), proto->mutable_has_id());
      return absl::OkStatus();
    default:
      return ConvertComparison(filter, Cat(path, ".comparison"), proto->mutable_comparison());
  }
}

}  // namespace

absl::Status ToProto(const Filter& filter, v1::Filter* proto) {
  return Convert(filter, "filter", 1, proto);
}

absl::Status ToProto(const AttributeSpec& spec, v1::AttributeSpec* proto) {
  NF_RETURN_IF_ERROR(CheckText("attributes.name", spec.name));
  proto->set_name(spec.name);
  proto->set_type(static_cast<v1::AttributeType>(spec.type));
  proto->set_is_list(spec.is_list);
  return absl::OkStatus();
}

AttributeSpec FromProto(v1::AttributeSpec* proto) {
  // A type that a newer server may have added becomes kUnknown.
  const bool known = v1::AttributeType_IsValid(proto->type());
  return {.name = std::move(*proto->mutable_name()),
          .type = known ? static_cast<AttributeType>(proto->type()) : AttributeType::kUnknown,
          .is_list = proto->is_list()};
}

void ToProto(const AttributeValues& values, size_t begin, size_t end, v1::AttributeValues* proto) {
  std::visit(
      [&](const auto& column) {
        for (size_t i = begin; i < end; ++i) Add(column[i], proto);
      },
      values);
}

}  // namespace nearfield::client

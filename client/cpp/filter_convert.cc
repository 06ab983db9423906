#include "client/cpp/filter_convert.h"

#include <string>
#include <utility>

#include "client/cpp/attribute_convert.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

static_assert(static_cast<int>(AttributeType::kInt64) == v1::ATTRIBUTE_TYPE_INT64);
static_assert(static_cast<int>(AttributeType::kTimestamp) == v1::ATTRIBUTE_TYPE_TIMESTAMP);

int64_t Microseconds(Timestamp time) { return time.time_since_epoch().count(); }

// Add one value of each type.
void Add(int64_t value, v1::AttributeValues* proto) { proto->add_int64_values(value); }
void Add(double value, v1::AttributeValues* proto) { proto->add_double_values(value); }
void Add(bool value, v1::AttributeValues* proto) { proto->add_bool_values(value); }
void Add(const std::string& value, v1::AttributeValues* proto) { proto->add_keyword_values(value); }
void Add(Timestamp value, v1::AttributeValues* proto) {
  proto->add_timestamp_us_values(Microseconds(value));
}

absl::Status ToProto(const std::string& field, const FilterArgument::Values& values,
                     v1::AttributeValues* proto) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string place = Cat(field, "[", i, "]");
    if (values[i].type() != values.front().type()) {
      return absl::InvalidArgumentError(Cat(place, ": ", WithArticle(values[i].type()), " among ",
                                            Name(values.front().type()), " values"));
    }
    if (const auto* keyword = std::get_if<std::string>(&values[i].variant())) {
      NF_RETURN_IF_ERROR(CheckText(place, *keyword));
    }
    std::visit([&](const auto& typed) { Add(typed, proto); }, values[i].variant());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ToProto(const std::string& field, const FilterArgument& argument,
                     v1::FilterArgument* proto) {
  if (!argument.ids()) return ToProto(field, argument.values(), proto->mutable_values());
  NF_RETURN_IF_ERROR(CheckText(field, *argument.ids()));
  ToProto(*argument.ids(), 0, Count(*argument.ids()), proto->mutable_ids());
  return absl::OkStatus();
}

absl::Status ToProto(std::string_view prefix, const Filter& filter, std::string* text,
                     google::protobuf::RepeatedPtrField<v1::FilterArgument>* arguments) {
  NF_RETURN_IF_ERROR(CheckText(Cat(prefix, "filter_text"), filter.text()));
  *text = filter.text();
  for (const FilterArgument& argument : filter.arguments()) {
    const std::string field = Cat(prefix, "filter_args[", arguments->size(), "]");
    NF_RETURN_IF_ERROR(ToProto(field, argument, arguments->Add()));
  }
  return absl::OkStatus();
}

absl::StatusOr<FilterArgument> FilterArgument::Parse(std::string_view message) {
  v1::FilterArgument proto;
  if (!proto.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return absl::InvalidArgumentError("not a FilterArgument message");
  }
  if (proto.has_ids()) {
    NF_ASSIGN_OR_RETURN(IdColumn ids, TakeIds(proto.mutable_ids()));
    return FilterArgument(std::move(ids));
  }
  return std::visit([](const auto& column) { return Values(column.begin(), column.end()); },
                    TakeValues(proto.mutable_values()));
}

absl::Status ToProto(const AttributeSpec& spec, v1::AttributeSpec* proto) {
  NF_RETURN_IF_ERROR(CheckText("attributes.name", spec.name));
  proto->set_name(spec.name);
  proto->set_type(static_cast<v1::AttributeType>(spec.type));
  proto->set_is_list(spec.is_list);
  proto->set_expires(spec.expires);
  return absl::OkStatus();
}

AttributeSpec FromProto(v1::AttributeSpec* proto) {
  // A type that a newer server may have added becomes kUnknown.
  const bool known = v1::AttributeType_IsValid(proto->type());
  return {.name = std::move(*proto->mutable_name()),
          .type = known ? static_cast<AttributeType>(proto->type()) : AttributeType::kUnknown,
          .is_list = proto->is_list(),
          .expires = proto->expires()};
}

void ToProto(const AttributeValues& values, size_t begin, size_t end, v1::AttributeValues* proto) {
  std::visit(
      [&](const auto& column) {
        for (size_t i = begin; i < end; ++i) Add(column[i], proto);
      },
      values);
}

}  // namespace nearfield::client

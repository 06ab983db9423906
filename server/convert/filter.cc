#include "server/convert/filter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/attributes/filter_text.h"
#include "server/attributes/limits.h"
#include "server/convert/attributes.h"

namespace nearfield::server {
namespace {

constexpr AttributeLimits kFilterLimits;

// The arguments' number, and their size in the request.
struct ArgumentsSize {
  int64_t count = 0;
  int64_t bytes = 0;
  ArgumentSize largest;

  bool fits() const {
    return count <= kFilterLimits.filter_args_max && bytes <= kFilterLimits.filter_args_bytes_max;
  }
};

ArgumentsSize SizeOf(const GivenFilter& given) {
  ArgumentsSize size;
  if (given.arguments == nullptr) return size;
  for (const pb::FilterArgument& argument : *given.arguments) {
    size.count += 1;
    const auto bytes = static_cast<int64_t>(argument.ByteSizeLong());
    const int64_t values = ValuesCount(argument.values()) + argument.ids().numbers_size() +
                           argument.ids().texts_size();
    size.bytes += bytes;
    size.largest = {.values = std::max(size.largest.values, values),
                    .bytes = std::max(size.largest.bytes, bytes)};
  }
  return size;
}

absl::StatusOr<FilterArgument> ArgumentFromProto(const std::string& field,
                                                 const pb::FilterArgument& argument,
                                                 IdType id_type) {
  if (argument.has_ids()) {
    return IdsFromProto(field + ".ids", argument.ids(), id_type,
                        {.min = 0, .max = kFilterLimits.filter_values_max});
  }
  if (!argument.has_values()) return ArgumentError(field, "neither values nor ids are set");
  const int64_t count = ValuesCount(argument.values());
  if (count > kFilterLimits.filter_values_max) {
    return MustBe(field + ".values", absl::StrCat(count, " values"),
                  absl::StrCat("at most ", kFilterLimits.filter_values_max));
  }
  ABSL_ASSIGN_OR_RETURN(const std::optional<AttributeType> type,
                        TypeOfValues(field + ".values", argument.values()));
  if (!type.has_value()) return ValueColumn();
  ValueColumn values = ValuesFromProto(argument.values(), *type);
  for (int64_t i = 0; *type == AttributeType::kDouble && i < count; ++i) {
    if (!std::isnan(values.number(i))) continue;
    return ArgumentError(absl::StrCat(field, ".values[", i, "]"),
                         "NaN, must be a number or an infinity");
  }
  return values;
}

absl::StatusOr<std::vector<FilterArgument>> ArgumentsFromProto(const GivenFilter& given,
                                                               IdType id_type) {
  const ArgumentsSize size = SizeOf(given);
  if (size.count > kFilterLimits.filter_args_max) {
    return MustBe(given.fields.arguments, absl::StrCat(size.count, " arguments"),
                  absl::StrCat("at most ", kFilterLimits.filter_args_max));
  }
  if (size.bytes > kFilterLimits.filter_args_bytes_max) {
    return MustBe(given.fields.arguments, absl::StrCat(size.bytes, " bytes"),
                  absl::StrCat("at most ", kFilterLimits.filter_args_bytes_max));
  }
  std::vector<FilterArgument> arguments;
  arguments.reserve(static_cast<size_t>(size.count));
  for (int i = 0; i < size.count; ++i) {
    ABSL_ASSIGN_OR_RETURN(FilterArgument argument,
                          ArgumentFromProto(absl::StrCat(given.fields.arguments, "[", i, "]"),
                                            given.arguments->Get(i), id_type));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace

SentFilter ToSent(const GivenFilter& given) {
  SentFilter sent;
  if (!given.given()) return sent;
  sent.text = *given.text;
  for (const pb::FilterArgument& argument : *given.arguments) {
    sent.arguments.push_back(argument.SerializeAsString());
  }
  return sent;
}

absl::StatusOr<Filter> FromProto(const GivenFilter& given, IdType id_type,
                                 const AttributeSchema& schema) {
  if (given.text == nullptr) {
    return ArgumentError(
        given.fields.arguments,
        absl::StrCat(given.arguments->size(), " given without ", given.fields.text));
  }
  ABSL_ASSIGN_OR_RETURN(const std::vector<FilterArgument> arguments,
                        ArgumentsFromProto(given, id_type));
  ABSL_ASSIGN_OR_RETURN(FilterTree tree, ParseFilterText(*given.text, arguments, id_type, schema,
                                                         kFilterLimits, given.fields));
  return Filter(std::move(tree), schema);
}

int64_t FilterMemoryMax(const GivenFilter& given) {
  const ArgumentsSize size = SizeOf(given);
  if (given.text == nullptr || !size.fits()) return 0;  // refused at once
  // A number takes at least 1 byte in the request, and 16 in a column that has grown.
  constexpr int64_t kBytesPerArgument = sizeof(FilterArgument) + 64;
  constexpr int64_t kBytesPerByte = 16;
  return FilterTextMemoryMax(*given.text, size.largest, kFilterLimits) +
         size.count * kBytesPerArgument + size.bytes * kBytesPerByte;
}

}  // namespace nearfield::server

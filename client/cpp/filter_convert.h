// Conversion of filters and attributes to proto and back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/v1/common.pb.h"

namespace nearfield::client {

// Errors: InvalidArgument, with `field` (it cannot be sent).
absl::Status ToProto(const std::string& field, const FilterArgument& argument,
                     v1::FilterArgument* proto);

// Sets the text and the arguments of a filter. Errors: InvalidArgument (it cannot be sent; begins
// with the field, such as "PREFIXfilter_text").
absl::Status ToProto(std::string_view prefix, const Filter& filter, std::string* text,
                     google::protobuf::RepeatedPtrField<v1::FilterArgument>* arguments);

// Sets the filter of a request. Errors: InvalidArgument (it cannot be sent).
template <typename Request>
absl::Status SetFilter(const std::optional<Filter>& filter, Request* request) {
  if (!filter) return absl::OkStatus();
  return ToProto("", *filter, request->mutable_filter_text(), request->mutable_filter_args());
}

// Errors: InvalidArgument (the name is not UTF-8).
absl::Status ToProto(const AttributeSpec& spec, v1::AttributeSpec* proto);
AttributeSpec FromProto(v1::AttributeSpec* proto);

// Converts values [begin, end).
void ToProto(const AttributeValues& values, size_t begin, size_t end, v1::AttributeValues* proto);

}  // namespace nearfield::client

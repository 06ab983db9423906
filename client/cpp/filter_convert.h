// Conversion of filters and attributes to proto and back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/check_text.h"
#include "client/formats/status_macros.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/v1/common.pb.h"

namespace nearfield::client {

// Errors: InvalidArgument, with `field` (it cannot be sent).
absl::Status ToProto(const std::string& field, const FilterArgument& argument,
                     v1::FilterArgument* proto);

// Sets the filter of a request. Errors: InvalidArgument (it cannot be sent).
template <typename Request>
absl::Status SetFilter(const std::optional<Filter>& filter, Request* request) {
  if (!filter) return absl::OkStatus();
  NF_RETURN_IF_ERROR(CheckText("filter_text", filter->text()));
  request->set_filter_text(filter->text());
  for (const FilterArgument& argument : filter->arguments()) {
    const std::string field = "filter_args[" + std::to_string(request->filter_args_size()) + "]";
    NF_RETURN_IF_ERROR(ToProto(field, argument, request->add_filter_args()));
  }
  return absl::OkStatus();
}

// Errors: InvalidArgument (the name is not UTF-8).
absl::Status ToProto(const AttributeSpec& spec, v1::AttributeSpec* proto);
AttributeSpec FromProto(v1::AttributeSpec* proto);

// Converts values [begin, end).
void ToProto(const AttributeValues& values, size_t begin, size_t end, v1::AttributeValues* proto);

}  // namespace nearfield::client

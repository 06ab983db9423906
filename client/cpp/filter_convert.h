// Conversion of filters and attributes to proto and back.
#pragma once

#include "absl/status/status.h"
#include "client/cpp/check_text.h"
#include "client/formats/status_macros.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/v1/common.pb.h"

namespace nearfield::client {

// Errors: InvalidArgument, with the path of the condition as the server would name it.
absl::Status ToProto(const Filter& filter, v1::Filter* proto);

// Sets the filter of a request from the members `filter` and `filter_text` of the options. The
// server refuses a request with both. Errors: InvalidArgument (it cannot be sent).
template <typename Options, typename Request>
absl::Status SetFilter(const Options& options, Request* request) {
  if (options.filter) NF_RETURN_IF_ERROR(ToProto(*options.filter, request->mutable_filter()));
  if (!options.filter_text) return absl::OkStatus();
  NF_RETURN_IF_ERROR(CheckText("filter_text", *options.filter_text));
  request->set_filter_text(*options.filter_text);
  return absl::OkStatus();
}

// Errors: InvalidArgument (the name is not UTF-8).
absl::Status ToProto(const AttributeSpec& spec, v1::AttributeSpec* proto);
AttributeSpec FromProto(v1::AttributeSpec* proto);

// Converts values [begin, end).
void ToProto(const AttributeValues& values, size_t begin, size_t end, v1::AttributeValues* proto);

}  // namespace nearfield::client

// Conversion of filters and attributes to proto and back.
#pragma once

#include "absl/status/status.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/v1/common.pb.h"

namespace nearfield::client {

// Errors: InvalidArgument, with the path of the condition as the server would name it.
absl::Status ToProto(const Filter& filter, v1::Filter* proto);

// Errors: InvalidArgument (the name is not UTF-8).
absl::Status ToProto(const AttributeSpec& spec, v1::AttributeSpec* proto);
AttributeSpec FromProto(v1::AttributeSpec* proto);

// Converts values [begin, end).
void ToProto(const AttributeValues& values, size_t begin, size_t end, v1::AttributeValues* proto);

}  // namespace nearfield::client

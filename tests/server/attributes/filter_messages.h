// Converts the arguments of filters and attribute blocks to the messages that a client would send.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include "nearfield/v1/common.pb.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/filter_text.h"
#include "tests/server/attributes/filter_printer.h"

namespace nearfield::server {

void ToMessage(const FilterArgument& argument, nearfield::v1::FilterArgument* message);

// Sets the filter of a request.
template <typename Request>
void SetFilter(const PrintedFilter& filter, Request* request) {
  request->set_filter_text(filter.text);
  for (const FilterArgument& each : filter.arguments) ToMessage(each, request->add_filter_args());
}

// Adds a column for each attribute.
void ToMessages(const AttributeSchema& schema, const AttributeBlock& block,
                google::protobuf::RepeatedPtrField<nearfield::v1::AttributeColumn>* columns);

}  // namespace nearfield::server

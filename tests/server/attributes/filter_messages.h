// Converts native filters and attribute blocks to the messages that a client would send.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>

#include "nearfield/v1/common.pb.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/filter_tree.h"

namespace nearfield::server {

// Converts the condition at `place` and its descendants. Ids are numbers.
void ToMessage(const FilterTree& tree, int32_t place, nearfield::v1::Filter* message);

// Adds a column for each attribute.
void ToMessages(const AttributeSchema& schema, const AttributeBlock& block,
                google::protobuf::RepeatedPtrField<nearfield::v1::AttributeColumn>* columns);

}  // namespace nearfield::server

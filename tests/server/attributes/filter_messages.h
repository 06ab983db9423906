// Native filters and attribute blocks as messages: what a client would send.
#ifndef NEARFIELD_TESTS_SERVER_ATTRIBUTES_FILTER_MESSAGES_H_
#define NEARFIELD_TESTS_SERVER_ATTRIBUTES_FILTER_MESSAGES_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>

#include "nearfield/v1/common.pb.h"
#include "server/catalog/attributes/attribute_block.h"
#include "server/catalog/attributes/filter_tree.h"

namespace nearfield::server {

// The condition at `place` and what is below it. Ids are numbers.
void ToMessage(const FilterTree& tree, int32_t place, nearfield::v1::Filter* message);

// A column for each attribute.
void ToMessages(const AttributeSchema& schema, const AttributeBlock& block,
                google::protobuf::RepeatedPtrField<nearfield::v1::AttributeColumn>* columns);

}  // namespace nearfield::server

#endif  // NEARFIELD_TESTS_SERVER_ATTRIBUTES_FILTER_MESSAGES_H_

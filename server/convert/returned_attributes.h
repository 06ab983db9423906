// Conversion of the attributes that a request wants to be returned, and of their values.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/row_reader.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_counts.h"
#include "server/convert/common.h"

namespace nearfield::server {

// Returns the attributes that `names`, the field "attributes" of a request, asks for: "*" alone
// asks for all. Errors: InvalidArgument (not declared, twice, or "*" with others), as
// "attributes[1]: ...".
absl::StatusOr<WantedAttributes> WantedFromProto(
    const google::protobuf::RepeatedPtrField<std::string>& names, const AttributeSchema& schema);

// Returns the expected bytes of one row's attributes in a reply: with short keywords and lists.
int64_t AttributeBytesExpected(const AttributeSchema& schema, const WantedAttributes& wanted);
// Returns an upper limit of the bytes of one row's attributes in a reply, whatever they are.
int64_t AttributeBytesLimit(const AttributeSchema& schema, const WantedAttributes& wanted);

// Returns the bytes of the columns of all rows, with the frames.
MessageBytes ColumnBytes(const RowReader& rows, const WantedAttributes& wanted);

// Appends a column for each wanted attribute, with the first `rows_count` rows of the reader.
void ToProto(const RowReader& rows, int64_t rows_count, const WantedAttributes& wanted,
             google::protobuf::RepeatedPtrField<pb::AttributeColumn>* columns);

// Returns an upper limit of the bytes of a facet with `values_max` values in a reply.
int64_t FacetBytesMax(const AttributeSpec& spec, int64_t values_max);
// Sets the facet of the attribute with this name.
void ToProto(const std::string& name, const ValueCounts& counts, pb::Facet* facet);

}  // namespace nearfield::server

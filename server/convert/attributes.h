// Conversion between proto and native types for declared attributes and for the attribute columns
// of an upload block.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"
#include "server/convert/common.h"

namespace nearfield::server {

// Returns nullopt for unspecified and unknown values.
std::optional<AttributeType> AttributeTypeFromProto(pb::AttributeType type);
pb::AttributeType ToProto(AttributeType type);

// Errors: InvalidArgument, as "attribute.type: ...". AttributeSchema checks the rest.
absl::StatusOr<AttributeSpec> FromProto(const pb::AttributeSpec& spec,
                                        const std::string& field = "attribute");
// Errors: InvalidArgument, as "attributes[3].type: ...".
absl::StatusOr<AttributeSchema> FromProto(
    const google::protobuf::RepeatedPtrField<pb::AttributeSpec>& specs,
    const AttributeLimits& limits);
void ToProto(const AttributeSchema& schema,
             google::protobuf::RepeatedPtrField<pb::AttributeSpec>* specs);

// Returns the columns of a block of `rows_count` rows. An attribute that no column names is missing
// in every row. EncodeRowAttributes checks the total size of one row's attributes.
// Errors: InvalidArgument, as "block.attributes[1].list_sizes: ...", with the row if one is at
// fault.
absl::StatusOr<AttributeBlock> FromProto(
    const google::protobuf::RepeatedPtrField<pb::AttributeColumn>& columns,
    const AttributeSchema& schema, int64_t rows_count, const AttributeLimits& limits);

// Returns one bit for each row: bit i % 8 of byte i / 8; null: all are set. Errors:
// InvalidArgument, naming `field`.
absl::StatusOr<std::vector<bool>> BitsFromProto(const std::string& field, const std::string* bits,
                                                int64_t rows_count);

// Returns the number of the attribute with this name. Errors: InvalidArgument, naming `field`.
absl::StatusOr<int32_t> AttributeFromProto(const std::string& field, const std::string& name,
                                           const AttributeSchema& schema);

// Returns the column of one attribute. Errors: InvalidArgument, below `field`.
absl::StatusOr<AttributeColumn> ColumnFromProto(const std::string& field,
                                                const pb::AttributeColumn& message,
                                                const AttributeSpec& spec, int64_t rows_count,
                                                const AttributeLimits& limits);

// Returns the number of values, of all types together.
int64_t ValuesCount(const pb::AttributeValues& values);
// Returns the type of the member that has values; nullopt if none has. `field` is the path of
// `values`.
// Errors: InvalidArgument (several members have values).
absl::StatusOr<std::optional<AttributeType>> TypeOfValues(const std::string& field,
                                                          const pb::AttributeValues& values);
// Returns the values of the member of this type.
ValueColumn ValuesFromProto(const pb::AttributeValues& values, AttributeType type);
// Returns an upper limit of the bytes of one value of this type in a message.
int64_t ValueBytesMax(AttributeType type);
// Appends the values to the member of their type.
void ToProto(const ValueColumn& values, pb::AttributeValues* message);

}  // namespace nearfield::server

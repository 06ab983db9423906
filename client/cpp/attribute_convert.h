// Conversion of columns of attributes to proto and back.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/block_cutter.h"
#include "nearfield/client/attributes.h"
#include "nearfield/v1/common.pb.h"

namespace nearfield::client {

using AttributeColumnProtos = google::protobuf::RepeatedPtrField<v1::AttributeColumn>;

// Moves the values out of the member that has some; without values, they are integers.
AttributeValues TakeValues(v1::AttributeValues* proto);

// Moves the columns of `rows_count` rows out of the messages. Errors: Internal (the counts of a
// column do not match).
absl::StatusOr<std::vector<AttributeColumn>> TakeColumns(AttributeColumnProtos* protos,
                                                         size_t rows_count);

// Returns bits [begin, end) as a bitmap: bit i is bit i % 8 of byte i / 8.
std::string Bitmap(const std::vector<bool>& bits, size_t begin, size_t end);

// Converts the rows between two positions of a column.
void ToProto(const ColumnPlace& from, const ColumnPlace& to, v1::AttributeColumn* proto);

// Adds the names of the attributes that a request wants. Errors: InvalidArgument (not UTF-8).
absl::Status AddNames(std::span<const std::string> attributes,
                      google::protobuf::RepeatedPtrField<std::string>* names);

}  // namespace nearfield::client

// FromJson: a message from its JSON form, by the JSON mapping of proto3.
//
// Protobuf's own conversion takes 1 us for each number of a vector, and its memory has no bound
// that can be reserved before. This reader makes the same messages (tests/server/json_test.cc).
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace nearfield::server {

// Reserves memory before it is used. Receives the bytes of all memory in use; those of a later call
// are more. Errors: ResourceExhausted.
using ReserveBytes = std::function<absl::Status(int64_t bytes)>;

// Reads `json`, one object, into `message`, which is empty. A field has its name in the proto file
// or that name in lowerCamelCase. null is an absent field. Unknown fields are refused, and so are a
// field and a member of a oneof that are given twice, and text that is not JSON by RFC 8259 in
// UTF-8. Requires: the type has fewer than 64 fields in each message, and neither maps nor
// recursion. Errors: InvalidArgument (names the field, or the byte at which the text is not JSON),
// those of `reserve`. Cost: about 20 ns for each number.
absl::Status FromJson(std::string_view json, const ReserveBytes& reserve,
                      google::protobuf::Message* message);

}  // namespace nearfield::server

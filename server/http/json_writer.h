// ToJson: the JSON form of a message, by the JSON mapping of proto3.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "server/http/json_reader.h"

namespace nearfield::server {

// Appends the JSON form of `message` to `json`, as a line with its end. Fields have their names in
// the proto file; a field with its default value is left out; integers of 64 bits are texts;
// infinities and NaN are "Infinity", "-Infinity" and "NaN"; other floats have the fewest digits
// that identify them, and -0 is -0.0, which no parser takes for an integer. `reserve` is called
// before `json` grows, with the bytes of all its memory. Requires: the type has no maps. Errors:
// those of `reserve`.
absl::Status ToJson(const google::protobuf::Message& message, const ReserveBytes& reserve,
                    std::string* json);

}  // namespace nearfield::server

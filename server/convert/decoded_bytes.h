// DecodedBytesMax: a bound on the memory that decoding a message takes, computed from its bytes.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace nearfield::server {

// Returns an upper bound on the memory in use at any moment while `wire` is decoded into a message
// of the type of `message`. Allocated memory that is never written does not count. An empty text
// takes two bytes on the wire and fifty in memory, so the size on the wire is no bound. If the
// bound exceeds `bytes_max`, returns a value above `bytes_max` without reading the rest. Cost: tens
// of nanoseconds for each field outside of packed lists, texts and bytes. Errors: InvalidArgument
// (the bytes that were read are not such a message). The decoder may still refuse an accepted
// message, for a text that is not UTF-8.
absl::StatusOr<int64_t> DecodedBytesMax(const google::protobuf::Message& message,
                                        google::protobuf::io::ZeroCopyInputStream* wire,
                                        int64_t bytes_max);

}  // namespace nearfield::server

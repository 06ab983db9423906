// The memory that decoding a message may take, computed from its bytes alone.
#ifndef NEARFIELD_SERVER_CONVERT_DECODED_BYTES_H_
#define NEARFIELD_SERVER_CONVERT_DECODED_BYTES_H_

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace nearfield::server {

// Returns at least the bytes of memory that hold anything at one moment while `wire` is decoded
// into a message of the type of `message`: allocated room that is never written costs nothing. An
// empty text takes two bytes on the wire and fifty in memory, so the size on the wire bounds
// nothing. Stops where the sum exceeds `bytes_max`, and returns what it has by then, which is more
// than `bytes_max`. Cost: tens of nanoseconds for each field outside of packed lists, texts and
// bytes. Errors: InvalidArgument where the bytes are no such message. What this accepts may still
// be refused by the decoder, for a text that is not UTF-8.
absl::StatusOr<int64_t> DecodedBytesMax(const google::protobuf::Message& message,
                                        google::protobuf::io::ZeroCopyInputStream* wire,
                                        int64_t bytes_max);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONVERT_DECODED_BYTES_H_

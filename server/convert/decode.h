// Decodes requests from bytes to messages. A small message may become large when it is decoded, so
// its memory is reserved first.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "server/convert/held_message.h"
#include "server/scheduler/memory_ledger.h"

namespace nearfield::server {

// The bytes of a message, as a transport holds them.
class EncodedMessage {
 public:
  EncodedMessage() = default;
  virtual ~EncodedMessage() = default;
  EncodedMessage(const EncodedMessage&) = delete;
  EncodedMessage& operator=(const EncodedMessage&) = delete;

  virtual size_t size() const = 0;
  // Returns a new reader of all bytes, or null if they cannot be read.
  virtual std::unique_ptr<google::protobuf::io::ZeroCopyInputStream> NewReader() = 0;
  // Releases the bytes.
  virtual void Clear() = 0;
};

// Decodes `bytes`, which are empty afterwards. Reserves memory in `account`: the maximum that
// decoding can take (DecodedBytesMax) before, and the memory of the message after. Returns the
// reservation. Errors: InvalidArgument (not such a message), ResourceExhausted (the account has no
// room; without a retry hint if the message can never fit).
absl::StatusOr<ByteAccount::Hold> Decode(EncodedMessage* bytes, ByteAccount* account,
                                         const std::string& caller,
                                         google::protobuf::Message* message);

// Decodes `bytes`, which are empty afterwards, without an account.
// Errors: InvalidArgument (not such a message), ResourceExhausted (may take more than `bytes_max`).
absl::Status DecodeWithin(int64_t bytes_max, EncodedMessage* bytes,
                          google::protobuf::Message* message);

// The memory that decoding may take.
struct DecodeLimits {
  ByteAccount* account = nullptr;
  // A message that takes at most this is not reserved in the account.
  int64_t unreserved_bytes_max = 0;
};

// As Decode, but the returned message keeps its reservation until the last holder releases it.
template <typename Request>
absl::StatusOr<std::shared_ptr<const Request>> DecodeHeld(EncodedMessage* bytes,
                                                          const DecodeLimits& limits,
                                                          const std::string& caller) {
  return ReadHeld<Request>([&](HeldMessage<Request>* held) -> absl::Status {
    if (limits.unreserved_bytes_max > 0) {
      absl::Status unreserved = DecodeWithin(limits.unreserved_bytes_max, bytes, &held->message);
      if (!absl::IsResourceExhausted(unreserved)) return unreserved;
    }
    ABSL_ASSIGN_OR_RETURN(held->hold, Decode(bytes, limits.account, caller, &held->message));
    return absl::OkStatus();
  });
}

}  // namespace nearfield::server

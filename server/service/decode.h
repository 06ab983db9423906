// Requests from bytes to messages. Decoding is where a small message may become large, so its
// memory is reserved first.
#ifndef NEARFIELD_SERVER_SERVICE_DECODE_H_
#define NEARFIELD_SERVER_SERVICE_DECODE_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "server/batching/memory_ledger.h"

namespace nearfield::server {

// Decodes `bytes`, which are empty afterwards, and holds in `account` what the message takes: while
// it is decoded at most (DecodedBytesMax), afterwards as it is.
// Errors: InvalidArgument (no such message), ResourceExhausted (no room in the account; without a
// retry hint where the message can never have room).
absl::StatusOr<ByteAccount::Hold> Decode(grpc::ByteBuffer* bytes, ByteAccount* account,
                                         const std::string& caller,
                                         google::protobuf::Message* message);

// Decodes `bytes`, which are empty afterwards, without an account.
// Errors: InvalidArgument (no such message), ResourceExhausted (it may take more than `bytes_max`).
absl::Status DecodeWithin(int64_t bytes_max, grpc::ByteBuffer* bytes,
                          google::protobuf::Message* message);

// A message that counts in the ledger for as long as somebody holds it.
template <typename Request>
absl::StatusOr<std::shared_ptr<const Request>> DecodeHeld(grpc::ByteBuffer* bytes,
                                                          ByteAccount* account,
                                                          const std::string& caller) {
  struct Held {
    ByteAccount::Hold hold;  // ends after the message
    Request message;
  };
  const auto held = std::make_shared<Held>();
  ABSL_ASSIGN_OR_RETURN(held->hold, Decode(bytes, account, caller, &held->message));
  return std::shared_ptr<const Request>(held, &held->message);
}

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_DECODE_H_

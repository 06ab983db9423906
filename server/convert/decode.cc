#include "server/convert/decode.h"

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "server/convert/decoded_bytes.h"

namespace nearfield::server {
namespace {

absl::Status CannotDecode(const google::protobuf::Message& message) {
  return ArgumentError("message",
                       absl::StrCat("cannot be decoded: it is no ", message.GetTypeName(),
                                    ", or a text in it is not UTF-8"));
}

// Returns the maximum memory of decoding `bytes`. Errors: InvalidArgument, ResourceExhausted.
absl::StatusOr<int64_t> BytesNeeded(EncodedMessage* bytes, int64_t bytes_max,
                                    const char* limit_name,
                                    const google::protobuf::Message& message) {
  const auto reader = bytes->NewReader();
  if (reader == nullptr) return CannotDecode(message);
  absl::StatusOr<int64_t> needed = DecodedBytesMax(message, reader.get(), bytes_max);
  if (!needed.ok()) return CannotDecode(message);
  if (*needed <= bytes_max) return needed;
  return absl::ResourceExhaustedError(
      absl::StrCat("message: ", bytes->size(), " bytes; decoded, it may take more than ", bytes_max,
                   " bytes of memory, the limit", limit_name, ": send smaller messages"));
}

absl::Status Parse(EncodedMessage* bytes, google::protobuf::Message* message) {
  bool decoded = false;
  {
    const auto reader = bytes->NewReader();
    decoded = reader != nullptr && message->ParseFromZeroCopyStream(reader.get());
  }
  bytes->Clear();
  if (decoded) return absl::OkStatus();
  message->Clear();
  return CannotDecode(*message);
}

}  // namespace

absl::StatusOr<ByteAccount::Hold> Decode(EncodedMessage* bytes, ByteAccount* account,
                                         const std::string& caller,
                                         google::protobuf::Message* message) {
  ABSL_ASSIGN_OR_RETURN(const int64_t needed,
                        BytesNeeded(bytes, account->bytes_max(), " requests_bytes_max", *message));
  ABSL_ASSIGN_OR_RETURN(ByteAccount::Hold hold, account->Reserve(caller, needed));
  ABSL_RETURN_IF_ERROR(Parse(bytes, message));
  hold.Resize(static_cast<int64_t>(message->SpaceUsedLong()));
  return hold;
}

absl::Status DecodeWithin(int64_t bytes_max, EncodedMessage* bytes,
                          google::protobuf::Message* message) {
  ABSL_RETURN_IF_ERROR(BytesNeeded(bytes, bytes_max, "", *message).status());
  return Parse(bytes, message);
}

}  // namespace nearfield::server

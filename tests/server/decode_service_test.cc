// Tests messages that cannot be decoded, or grow too much, over a real channel.
#include <google/protobuf/unknown_field_set.h>

#include <memory>
#include <string>

#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class DecodeServiceTest : public ServerFixture {
 protected:
  // Makes a call of any kind with `bytes` as its only message, and returns its status.
  grpc::Status CallWith(const char* path, const std::string& bytes) {
    grpc::ClientContext context;
    using Factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;
    const grpc::internal::RpcMethod method(path, grpc::internal::RpcMethod::BIDI_STREAMING);
    const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
        Factory::Create(channel_.get(), method, &context));
    const grpc::Slice slice(bytes);
    stream->Write(grpc::ByteBuffer(&slice, 1));
    stream->WritesDone();
    for (grpc::ByteBuffer reply; stream->Read(&reply);) {
    }
    return stream->Finish();
  }
  // Returns a message with `message` as its only field.
  static std::string Nested(int field, const std::string& message) {
    google::protobuf::UnknownFieldSet fields;
    fields.AddLengthDelimited(field, message);
    std::string bytes;
    fields.SerializeToString(&bytes);
    return bytes;
  }
};

// gRPC ended such a call with UNIMPLEMENTED and an empty message.
TEST_F(DecodeServiceTest, AnUndecodableRequestIsAnInvalidArgument) {
  ServeRows();
  const auto wrong = RefusedWith(kInvalidArgument,
                                 "message: cannot be decoded: it is no nearfield.v1.FetchRequest");
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/Fetch", "\x0a\2\xff\xfe"), wrong);
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/Fetch", "\x0a\2a"), wrong);
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/SearchAll", "\1"), HasCode(kInvalidArgument));
  EXPECT_THAT(CallWith("/nearfield.v1.Ingest/Delete", "\1"), HasCode(kInvalidArgument));
  EXPECT_THAT(CallWith("/nearfield.v1.Ingest/Upload", "\1"), HasCode(kInvalidArgument));
  EXPECT_THAT(CallWith("/nearfield.v1.Admin/GetCapacity", "\1"), HasCode(kInvalidArgument));
  EXPECT_THAT(CallWith("/grpc.health.v1.Health/Check", "\1"), HasCode(kInvalidArgument));
  EXPECT_THAT(CallWith("/grpc.health.v1.Health/Watch", "\1"), HasCode(kInvalidArgument));
}

// 64 MiB of empty texts were decoded into more than 1 GB before the server saw the message.
TEST_F(DecodeServiceTest, WhatGrowsTooMuchWhenItIsDecodedIsRefusedBeforeIt) {
  Set(settings_.request_bytes_max, "1MiB");
  Set(settings_.requests_bytes_max, "4MiB");
  ServeRows();
  std::string empties;
  while (empties.size() < 600'000) empties += std::string("\x12\0", 2);  // field 2, empty
  const auto refused =
      RefusedWith(kResourceExhausted, "message: ", "requests_bytes_max", "4194304");
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/Search", empties), refused);
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/SearchStream", empties), refused);
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/SearchAll", Nested(1, empties)), refused);
  EXPECT_THAT(CallWith("/nearfield.v1.Retrieval/Fetch", Nested(2, empties)), refused);
  EXPECT_THAT(CallWith("/nearfield.v1.Ingest/Upload", Nested(2, Nested(1, empties))), refused);
  EXPECT_THAT(CallWith("/nearfield.v1.Ingest/Delete", Nested(2, empties)), refused);
  EXPECT_THAT(CallWith("/nearfield.v1.Admin/GetCapacity", empties), refused);
  EXPECT_THAT(CallWith("/grpc.health.v1.Health/Check", empties), HasCode(kResourceExhausted));
  EXPECT_EQ(server_->state().ledger().requests.bytes(), 0);
}

}  // namespace
}  // namespace nearfield::server

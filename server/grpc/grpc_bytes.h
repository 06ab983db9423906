// GrpcBytes: the bytes of a message in gRPC's buffers.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstddef>
#include <memory>

#include "server/convert/decode.h"

namespace nearfield::server {

class GrpcBytes final : public EncodedMessage {
 public:
  // `bytes` outlives this object.
  explicit GrpcBytes(grpc::ByteBuffer* bytes) : bytes_(bytes) {}

  size_t size() const override { return bytes_->Length(); }
  std::unique_ptr<google::protobuf::io::ZeroCopyInputStream> NewReader() override {
    auto reader = std::make_unique<grpc::ProtoBufferReader>(bytes_);
    if (!reader->status().ok()) return nullptr;
    return reader;
  }
  void Clear() override { bytes_->Clear(); }

 private:
  grpc::ByteBuffer* const bytes_;
};

}  // namespace nearfield::server

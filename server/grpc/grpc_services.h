// The gRPC services of nearfield.v1. They pass decoded requests to a NearfieldService.
#pragma once

#include <cstdint>

#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/ingest.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"
#include "server/grpc/decoding_service.h"

namespace nearfield::server {

class RetrievalService final : public DecodingService<nearfield::v1::Retrieval::Service> {
 public:
  explicit RetrievalService(const ServiceBase& base);
};

class IngestService final : public DecodingService<nearfield::v1::Ingest::Service> {
 public:
  // `request_bytes_max`: maximum bytes of a message of an upload.
  IngestService(const ServiceBase& base, int64_t request_bytes_max);
};

class AdminService final : public DecodingService<nearfield::v1::Admin::Service> {
 public:
  explicit AdminService(const ServiceBase& base);
};

}  // namespace nearfield::server

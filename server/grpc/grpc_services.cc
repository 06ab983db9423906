#include "server/grpc/grpc_services.h"

#include "server/rpc/methods.h"

namespace nearfield::server {

RetrievalService::RetrievalService(const ServiceBase& base) : DecodingService(base) {
  VisitRetrieval([this](const char* name, auto method) { Register(name, method); });
}

IngestService::IngestService(const ServiceBase& base, int64_t request_bytes_max)
    : DecodingService({.service = base.service,
                       .requests = base.requests,
                       .control = base.control,
                       .has_keys = base.has_keys,
                       .unreserved_bytes_max = kUploadDecodedPart * request_bytes_max}) {
  VisitIngest([this](const char* name, auto method) { Register(name, method); });
}

AdminService::AdminService(const ServiceBase& base) : DecodingService(base) {
  VisitAdmin([this](const char* name, auto method) { Register(name, method); });
}

}  // namespace nearfield::server

#include "server/service/grpc_services.h"

namespace nearfield::server {
namespace {

// A message of an upload that takes more than this many times request_bytes_max after decoding is
// reserved in the ledger. Smaller ones are part of the memory of the upload's place
// (config/memory_plan.h).
constexpr int64_t kDecodedPart = 2;

}  // namespace

RetrievalService::RetrievalService(const ServiceBase& base) : DecodingService(base) {
  Register("nearfield.v1.Retrieval.Search", &NearfieldService::Search);
  Register("nearfield.v1.Retrieval.SearchStream", &NearfieldService::SearchStream);
  Register("nearfield.v1.Retrieval.SearchAll", &NearfieldService::SearchAll);
  Register("nearfield.v1.Retrieval.Fetch", &NearfieldService::Fetch);
  Register("nearfield.v1.Retrieval.Scan", &NearfieldService::Scan);
  Register("nearfield.v1.Retrieval.Count", &NearfieldService::Count);
  Register("nearfield.v1.Retrieval.GetLimits", &NearfieldService::GetLimits);
}

IngestService::IngestService(const ServiceBase& base, int64_t request_bytes_max)
    : DecodingService(base) {
  Register("nearfield.v1.Ingest.Upload", &NearfieldService::Upload,
           kDecodedPart * request_bytes_max);
  Register("nearfield.v1.Ingest.Delete", &NearfieldService::Delete);
  Register("nearfield.v1.Ingest.GetUpload", &NearfieldService::GetUpload);
  Register("nearfield.v1.Ingest.DropUpload", &NearfieldService::DropUpload);
  Register("nearfield.v1.Ingest.ListUploads", &NearfieldService::ListUploads);
}

AdminService::AdminService(const ServiceBase& base) : DecodingService(base) {
  Register("nearfield.v1.Admin.CreateCollection", &NearfieldService::CreateCollection);
  Register("nearfield.v1.Admin.DropCollection", &NearfieldService::DropCollection);
  Register("nearfield.v1.Admin.GetCollection", &NearfieldService::GetCollection);
  Register("nearfield.v1.Admin.ListCollections", &NearfieldService::ListCollections);
  Register("nearfield.v1.Admin.GetCapacity", &NearfieldService::GetCapacity);
  Register("nearfield.v1.Admin.GetCounters", &NearfieldService::GetCounters);
  Register("nearfield.v1.Admin.GetServerState", &NearfieldService::GetServerState);
  Register("nearfield.v1.Admin.Verify", &NearfieldService::Verify);
  Register("nearfield.v1.Admin.SetAlias", &NearfieldService::SetAlias);
  Register("nearfield.v1.Admin.DropAlias", &NearfieldService::DropAlias);
  Register("nearfield.v1.Admin.CreateSnapshot", &NearfieldService::CreateSnapshot);
  Register("nearfield.v1.Admin.DeleteSnapshot", &NearfieldService::DeleteSnapshot);
  Register("nearfield.v1.Admin.ListSnapshots", &NearfieldService::ListSnapshots);
  Register("nearfield.v1.Admin.Compact", &NearfieldService::Compact);
}

}  // namespace nearfield::server

#include "server/service/grpc_services.h"

namespace nearfield::server {
namespace {

// A message of an upload that takes more than this many times request_bytes_max after decoding is
// reserved in the ledger. Smaller ones are part of the memory of the upload's place
// (config/memory_plan.h).
constexpr int64_t kDecodedPart = 2;

}  // namespace

RetrievalService::RetrievalService(const ServiceBase& base) : DecodingService(base) {
  Answer("nearfield.v1.Retrieval.Search", &NearfieldService::Search);
  Answer("nearfield.v1.Retrieval.SearchStream", &NearfieldService::SearchStream);
  Answer("nearfield.v1.Retrieval.SearchAll", &NearfieldService::SearchAll);
  Answer("nearfield.v1.Retrieval.Fetch", &NearfieldService::Fetch);
  Answer("nearfield.v1.Retrieval.Count", &NearfieldService::Count);
  Answer("nearfield.v1.Retrieval.GetLimits", &NearfieldService::GetLimits);
}

IngestService::IngestService(const ServiceBase& base, int64_t request_bytes_max)
    : DecodingService(base) {
  Answer("nearfield.v1.Ingest.Upload", &NearfieldService::Upload, kDecodedPart * request_bytes_max);
  Answer("nearfield.v1.Ingest.Delete", &NearfieldService::Delete);
  Answer("nearfield.v1.Ingest.GetUpload", &NearfieldService::GetUpload);
  Answer("nearfield.v1.Ingest.DropUpload", &NearfieldService::DropUpload);
  Answer("nearfield.v1.Ingest.ListUploads", &NearfieldService::ListUploads);
}

AdminService::AdminService(const ServiceBase& base) : DecodingService(base) {
  Answer("nearfield.v1.Admin.CreateCollection", &NearfieldService::CreateCollection);
  Answer("nearfield.v1.Admin.DropCollection", &NearfieldService::DropCollection);
  Answer("nearfield.v1.Admin.GetCollection", &NearfieldService::GetCollection);
  Answer("nearfield.v1.Admin.ListCollections", &NearfieldService::ListCollections);
  Answer("nearfield.v1.Admin.GetCapacity", &NearfieldService::GetCapacity);
  Answer("nearfield.v1.Admin.GetCounters", &NearfieldService::GetCounters);
  Answer("nearfield.v1.Admin.Verify", &NearfieldService::Verify);
  Answer("nearfield.v1.Admin.SetAlias", &NearfieldService::SetAlias);
  Answer("nearfield.v1.Admin.DropAlias", &NearfieldService::DropAlias);
  Answer("nearfield.v1.Admin.CreateSnapshot", &NearfieldService::CreateSnapshot);
  Answer("nearfield.v1.Admin.ListSnapshots", &NearfieldService::ListSnapshots);
  Answer("nearfield.v1.Admin.Compact", &NearfieldService::Compact);
}

}  // namespace nearfield::server

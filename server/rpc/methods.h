// The table of the RPCs: the full name of each method, and the function of NearfieldService that
// answers it. Every transport walks it.
#pragma once

#include <cstdint>

#include "server/rpc/nearfield_service.h"

namespace nearfield::server {

// A message of an upload that takes more than this many times request_bytes_max after decoding is
// reserved in the ledger. Smaller ones are part of the memory of the upload's place
// (config/memory_plan.h).
inline constexpr int64_t kUploadDecodedPart = 2;

// Call `visit(name, method)` for each method of a service.
template <typename Visit>
void VisitRetrieval(const Visit& visit) {
  visit("nearfield.v1.Retrieval.Search", &NearfieldService::Search);
  visit("nearfield.v1.Retrieval.SearchStream", &NearfieldService::SearchStream);
  visit("nearfield.v1.Retrieval.SearchAll", &NearfieldService::SearchAll);
  visit("nearfield.v1.Retrieval.Fetch", &NearfieldService::Fetch);
  visit("nearfield.v1.Retrieval.Scan", &NearfieldService::Scan);
  visit("nearfield.v1.Retrieval.Count", &NearfieldService::Count);
  visit("nearfield.v1.Retrieval.Facets", &NearfieldService::Facets);
  visit("nearfield.v1.Retrieval.PinEpoch", &NearfieldService::PinEpoch);
  visit("nearfield.v1.Retrieval.GetLimits", &NearfieldService::GetLimits);
}

template <typename Visit>
void VisitIngest(const Visit& visit) {
  visit("nearfield.v1.Ingest.Upload", &NearfieldService::Upload);
  visit("nearfield.v1.Ingest.Delete", &NearfieldService::Delete);
  visit("nearfield.v1.Ingest.Update", &NearfieldService::Update);
  visit("nearfield.v1.Ingest.GetUpload", &NearfieldService::GetUpload);
  visit("nearfield.v1.Ingest.DropUpload", &NearfieldService::DropUpload);
  visit("nearfield.v1.Ingest.ListUploads", &NearfieldService::ListUploads);
}

template <typename Visit>
void VisitAdmin(const Visit& visit) {
  visit("nearfield.v1.Admin.CreateCollection", &NearfieldService::CreateCollection);
  visit("nearfield.v1.Admin.DropCollection", &NearfieldService::DropCollection);
  visit("nearfield.v1.Admin.AddAttribute", &NearfieldService::AddAttribute);
  visit("nearfield.v1.Admin.DropAttribute", &NearfieldService::DropAttribute);
  visit("nearfield.v1.Admin.GetCollection", &NearfieldService::GetCollection);
  visit("nearfield.v1.Admin.ListCollections", &NearfieldService::ListCollections);
  visit("nearfield.v1.Admin.GetCapacity", &NearfieldService::GetCapacity);
  visit("nearfield.v1.Admin.GetCounters", &NearfieldService::GetCounters);
  visit("nearfield.v1.Admin.GetServerState", &NearfieldService::GetServerState);
  visit("nearfield.v1.Admin.Verify", &NearfieldService::Verify);
  visit("nearfield.v1.Admin.SetAlias", &NearfieldService::SetAlias);
  visit("nearfield.v1.Admin.DropAlias", &NearfieldService::DropAlias);
  visit("nearfield.v1.Admin.CreateSnapshot", &NearfieldService::CreateSnapshot);
  visit("nearfield.v1.Admin.DeleteSnapshot", &NearfieldService::DeleteSnapshot);
  visit("nearfield.v1.Admin.ListSnapshots", &NearfieldService::ListSnapshots);
  visit("nearfield.v1.Admin.Compact", &NearfieldService::Compact);
}

}  // namespace nearfield::server

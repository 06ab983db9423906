// NearfieldService: the public RPCs, one method each. Contract: proto/nearfield/v1. It knows no
// transport: gRPC's adapter (server/service) calls it, and so may a caller in the same process.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/calls/call_context.h"

namespace nearfield::server {

// Each method starts a call and returns without waiting for it. The caller holds the returned call
// as ActiveCall requires; the call ends with CallContext::Finish, which may come before the method
// returns. `response` stays valid until ActiveCall::OnDone. `request` is released as early as
// possible, so a transport may bind the reservation of its memory to it.
// Thread-safe.
class NearfieldService {
 public:
  virtual ~NearfieldService() = default;

  // Retrieval.
  virtual ActiveCallPtr Search(CallContext* context,
                               std::shared_ptr<const nearfield::v1::SearchRequest> request,
                               nearfield::v1::SearchResponse* response) = 0;
  virtual ActiveCallPtr SearchStream(
      MessageStream<nearfield::v1::SearchRequest, nearfield::v1::SearchResponse>* context) = 0;
  virtual ActiveCallPtr SearchAll(
      ReplyStream<nearfield::v1::SearchResponse>* context,
      std::shared_ptr<const nearfield::v1::SearchAllRequest> request) = 0;
  virtual ActiveCallPtr Fetch(CallContext* context,
                              std::shared_ptr<const nearfield::v1::FetchRequest> request,
                              nearfield::v1::FetchResponse* response) = 0;
  virtual ActiveCallPtr Count(CallContext* context,
                              std::shared_ptr<const nearfield::v1::CountRequest> request,
                              nearfield::v1::CountResponse* response) = 0;
  virtual ActiveCallPtr GetLimits(CallContext* context,
                                  std::shared_ptr<const nearfield::v1::GetLimitsRequest> request,
                                  nearfield::v1::GetLimitsResponse* response) = 0;

  // Ingest.
  virtual ActiveCallPtr Upload(
      MessageStream<nearfield::v1::UploadRequest, nearfield::v1::UploadResponse>* context) = 0;
  virtual ActiveCallPtr Delete(CallContext* context,
                               std::shared_ptr<const nearfield::v1::DeleteRequest> request,
                               nearfield::v1::DeleteResponse* response) = 0;
  virtual ActiveCallPtr GetUpload(CallContext* context,
                                  std::shared_ptr<const nearfield::v1::GetUploadRequest> request,
                                  nearfield::v1::GetUploadResponse* response) = 0;
  virtual ActiveCallPtr DropUpload(CallContext* context,
                                   std::shared_ptr<const nearfield::v1::DropUploadRequest> request,
                                   nearfield::v1::DropUploadResponse* response) = 0;
  virtual ActiveCallPtr ListUploads(
      CallContext* context, std::shared_ptr<const nearfield::v1::ListUploadsRequest> request,
      nearfield::v1::ListUploadsResponse* response) = 0;

  // Admin.
  virtual ActiveCallPtr CreateCollection(
      CallContext* context, std::shared_ptr<const nearfield::v1::CreateCollectionRequest> request,
      nearfield::v1::CreateCollectionResponse* response) = 0;
  virtual ActiveCallPtr DropCollection(
      CallContext* context, std::shared_ptr<const nearfield::v1::DropCollectionRequest> request,
      nearfield::v1::DropCollectionResponse* response) = 0;
  virtual ActiveCallPtr GetCollection(
      CallContext* context, std::shared_ptr<const nearfield::v1::GetCollectionRequest> request,
      nearfield::v1::GetCollectionResponse* response) = 0;
  virtual ActiveCallPtr ListCollections(
      CallContext* context, std::shared_ptr<const nearfield::v1::ListCollectionsRequest> request,
      nearfield::v1::ListCollectionsResponse* response) = 0;
  virtual ActiveCallPtr GetCapacity(
      CallContext* context, std::shared_ptr<const nearfield::v1::GetCapacityRequest> request,
      nearfield::v1::GetCapacityResponse* response) = 0;
  virtual ActiveCallPtr GetCounters(
      CallContext* context, std::shared_ptr<const nearfield::v1::GetCountersRequest> request,
      nearfield::v1::GetCountersResponse* response) = 0;
  virtual ActiveCallPtr Verify(CallContext* context,
                               std::shared_ptr<const nearfield::v1::VerifyRequest> request,
                               nearfield::v1::VerifyResponse* response) = 0;
  virtual ActiveCallPtr SetAlias(CallContext* context,
                                 std::shared_ptr<const nearfield::v1::SetAliasRequest> request,
                                 nearfield::v1::SetAliasResponse* response) = 0;
  virtual ActiveCallPtr DropAlias(CallContext* context,
                                  std::shared_ptr<const nearfield::v1::DropAliasRequest> request,
                                  nearfield::v1::DropAliasResponse* response) = 0;
  virtual ActiveCallPtr CreateSnapshot(
      CallContext* context, std::shared_ptr<const nearfield::v1::CreateSnapshotRequest> request,
      nearfield::v1::CreateSnapshotResponse* response) = 0;
  virtual ActiveCallPtr ListSnapshots(
      CallContext* context, std::shared_ptr<const nearfield::v1::ListSnapshotsRequest> request,
      nearfield::v1::ListSnapshotsResponse* response) = 0;
  virtual ActiveCallPtr Compact(CallContext* context,
                                std::shared_ptr<const nearfield::v1::CompactRequest> request,
                                nearfield::v1::CompactResponse* response) = 0;

  // Ends a call whose request the transport could not decode: with `status`, or with the error of a
  // server that does not serve. The call is counted and logged like any other.
  virtual ActiveCallPtr Refuse(CallContext* context, const char* method,
                               const absl::Status& status) = 0;
};

}  // namespace nearfield::server

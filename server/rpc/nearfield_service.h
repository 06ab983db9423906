// NearfieldService: the public RPCs, one method each. Contract: proto/nearfield/v1. It knows no
// transport: gRPC's adapter (server/grpc) calls it, and so may a caller in the same process.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/rpc/call_context.h"

namespace nearfield::server {

namespace pb = ::nearfield::v1;

// A unary RPC to answer. The request is released as early as possible, so a transport may bind the
// reservation of its memory to it. The response stays valid until ActiveCall::OnDone.
template <typename Request, typename Response>
struct Rpc {
  CallContext* context = nullptr;
  std::shared_ptr<const Request> request;
  Response* response = nullptr;
};

using SearchMessages = MessageStream<pb::SearchRequest, pb::SearchResponse>;
using SearchReplies = ReplyStream<pb::SearchResponse>;
using ScanReplies = ReplyStream<pb::ScanResponse>;
using UploadMessages = MessageStream<pb::UploadRequest, pb::UploadResponse>;

// Each method starts a call and returns without waiting for it. The caller holds the returned call
// as ActiveCall requires; the call ends with CallContext::Finish, which may come before the method
// returns.
// Thread-safe.
class NearfieldService {
 public:
  virtual ~NearfieldService() = default;

  // Retrieval.
  virtual ActiveCallPtr Search(Rpc<pb::SearchRequest, pb::SearchResponse>) = 0;
  virtual ActiveCallPtr SearchStream(SearchMessages* context) = 0;
  virtual ActiveCallPtr SearchAll(SearchReplies* context,
                                  std::shared_ptr<const pb::SearchAllRequest> request) = 0;
  virtual ActiveCallPtr Fetch(Rpc<pb::FetchRequest, pb::FetchResponse>) = 0;
  virtual ActiveCallPtr Scan(ScanReplies* context,
                             std::shared_ptr<const pb::ScanRequest> request) = 0;
  virtual ActiveCallPtr Count(Rpc<pb::CountRequest, pb::CountResponse>) = 0;
  virtual ActiveCallPtr Facets(Rpc<pb::FacetsRequest, pb::FacetsResponse>) = 0;
  virtual ActiveCallPtr PinEpoch(Rpc<pb::PinEpochRequest, pb::PinEpochResponse>) = 0;
  virtual ActiveCallPtr GetLimits(Rpc<pb::GetLimitsRequest, pb::GetLimitsResponse>) = 0;

  // Ingest.
  virtual ActiveCallPtr Upload(UploadMessages* context) = 0;
  virtual ActiveCallPtr Delete(Rpc<pb::DeleteRequest, pb::DeleteResponse>) = 0;
  virtual ActiveCallPtr Update(Rpc<pb::UpdateRequest, pb::UpdateResponse>) = 0;
  virtual ActiveCallPtr GetUpload(Rpc<pb::GetUploadRequest, pb::GetUploadResponse>) = 0;
  virtual ActiveCallPtr DropUpload(Rpc<pb::DropUploadRequest, pb::DropUploadResponse>) = 0;
  virtual ActiveCallPtr ListUploads(Rpc<pb::ListUploadsRequest, pb::ListUploadsResponse>) = 0;

  // Admin.
  virtual ActiveCallPtr CreateCollection(
      Rpc<pb::CreateCollectionRequest, pb::CreateCollectionResponse>) = 0;
  virtual ActiveCallPtr DropCollection(
      Rpc<pb::DropCollectionRequest, pb::DropCollectionResponse>) = 0;
  virtual ActiveCallPtr AddAttribute(Rpc<pb::AddAttributeRequest, pb::AddAttributeResponse>) = 0;
  virtual ActiveCallPtr DropAttribute(Rpc<pb::DropAttributeRequest, pb::DropAttributeResponse>) = 0;
  virtual ActiveCallPtr GetCollection(Rpc<pb::GetCollectionRequest, pb::GetCollectionResponse>) = 0;
  virtual ActiveCallPtr ListCollections(
      Rpc<pb::ListCollectionsRequest, pb::ListCollectionsResponse>) = 0;
  virtual ActiveCallPtr GetCapacity(Rpc<pb::GetCapacityRequest, pb::GetCapacityResponse>) = 0;
  virtual ActiveCallPtr GetCounters(Rpc<pb::GetCountersRequest, pb::GetCountersResponse>) = 0;
  virtual ActiveCallPtr GetServerState(
      Rpc<pb::GetServerStateRequest, pb::GetServerStateResponse>) = 0;
  virtual ActiveCallPtr Verify(Rpc<pb::VerifyRequest, pb::VerifyResponse>) = 0;
  virtual ActiveCallPtr SetAlias(Rpc<pb::SetAliasRequest, pb::SetAliasResponse>) = 0;
  virtual ActiveCallPtr DropAlias(Rpc<pb::DropAliasRequest, pb::DropAliasResponse>) = 0;
  virtual ActiveCallPtr CreateSnapshot(
      Rpc<pb::CreateSnapshotRequest, pb::CreateSnapshotResponse>) = 0;
  virtual ActiveCallPtr DeleteSnapshot(
      Rpc<pb::DeleteSnapshotRequest, pb::DeleteSnapshotResponse>) = 0;
  virtual ActiveCallPtr ListSnapshots(Rpc<pb::ListSnapshotsRequest, pb::ListSnapshotsResponse>) = 0;
  virtual ActiveCallPtr Compact(Rpc<pb::CompactRequest, pb::CompactResponse>) = 0;

  // Ends a call whose request the transport could not decode: with `status`, or with the error of a
  // server that does not serve. The call is counted and logged like any other.
  virtual ActiveCallPtr Refuse(CallContext* context, const char* method,
                               const absl::Status& status) = 0;
};

}  // namespace nearfield::server

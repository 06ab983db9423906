// LocalService: the NearfieldService over the engine of this process.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "server/rpc/nearfield_service.h"
#include "server/rpc/server_state.h"
#include "server/rpc/unary_call.h"

namespace nearfield::server {

class LocalService final : public NearfieldService {
 public:
  // `state` outlives the service. `names_changed` is called on a worker after a call has added or
  // removed a name of a collection or an alias.
  LocalService(ServerState* state, std::function<void()> names_changed)
      : state_(state), names_changed_(std::move(names_changed)) {}

  // Retrieval.
  ActiveCallPtr Search(Rpc<pb::SearchRequest, pb::SearchResponse>) override;
  ActiveCallPtr SearchStream(SearchMessages* context) override;
  ActiveCallPtr SearchAll(SearchReplies* context,
                          std::shared_ptr<const pb::SearchAllRequest> request) override;
  ActiveCallPtr Fetch(Rpc<pb::FetchRequest, pb::FetchResponse>) override;
  ActiveCallPtr Scan(ScanReplies* context, std::shared_ptr<const pb::ScanRequest> request) override;
  ActiveCallPtr Count(Rpc<pb::CountRequest, pb::CountResponse>) override;
  ActiveCallPtr Facets(Rpc<pb::FacetsRequest, pb::FacetsResponse>) override;
  ActiveCallPtr PinEpoch(Rpc<pb::PinEpochRequest, pb::PinEpochResponse>) override;
  ActiveCallPtr GetLimits(Rpc<pb::GetLimitsRequest, pb::GetLimitsResponse>) override;

  // Ingest.
  ActiveCallPtr Upload(UploadMessages* context) override;
  ActiveCallPtr Delete(Rpc<pb::DeleteRequest, pb::DeleteResponse>) override;
  ActiveCallPtr Update(Rpc<pb::UpdateRequest, pb::UpdateResponse>) override;
  ActiveCallPtr GetUpload(Rpc<pb::GetUploadRequest, pb::GetUploadResponse>) override;
  ActiveCallPtr DropUpload(Rpc<pb::DropUploadRequest, pb::DropUploadResponse>) override;
  ActiveCallPtr ListUploads(Rpc<pb::ListUploadsRequest, pb::ListUploadsResponse>) override;

  // Admin.
  ActiveCallPtr CreateCollection(
      Rpc<pb::CreateCollectionRequest, pb::CreateCollectionResponse>) override;
  ActiveCallPtr DropCollection(Rpc<pb::DropCollectionRequest, pb::DropCollectionResponse>) override;
  ActiveCallPtr AddAttribute(Rpc<pb::AddAttributeRequest, pb::AddAttributeResponse>) override;
  ActiveCallPtr DropAttribute(Rpc<pb::DropAttributeRequest, pb::DropAttributeResponse>) override;
  ActiveCallPtr GetCollection(Rpc<pb::GetCollectionRequest, pb::GetCollectionResponse>) override;
  ActiveCallPtr ListCollections(
      Rpc<pb::ListCollectionsRequest, pb::ListCollectionsResponse>) override;
  ActiveCallPtr GetCapacity(Rpc<pb::GetCapacityRequest, pb::GetCapacityResponse>) override;
  ActiveCallPtr GetCounters(Rpc<pb::GetCountersRequest, pb::GetCountersResponse>) override;
  ActiveCallPtr GetServerState(Rpc<pb::GetServerStateRequest, pb::GetServerStateResponse>) override;
  ActiveCallPtr Verify(Rpc<pb::VerifyRequest, pb::VerifyResponse>) override;
  ActiveCallPtr SetAlias(Rpc<pb::SetAliasRequest, pb::SetAliasResponse>) override;
  ActiveCallPtr DropAlias(Rpc<pb::DropAliasRequest, pb::DropAliasResponse>) override;
  ActiveCallPtr CreateSnapshot(Rpc<pb::CreateSnapshotRequest, pb::CreateSnapshotResponse>) override;
  ActiveCallPtr DeleteSnapshot(Rpc<pb::DeleteSnapshotRequest, pb::DeleteSnapshotResponse>) override;
  ActiveCallPtr ListSnapshots(Rpc<pb::ListSnapshotsRequest, pb::ListSnapshotsResponse>) override;
  ActiveCallPtr Compact(Rpc<pb::CompactRequest, pb::CompactResponse>) override;

  ActiveCallPtr Refuse(CallContext* context, const char* method,
                       const absl::Status& status) override;

 private:
  // Answers the call with the status of `work`, which runs on a worker of `pool`.
  template <typename Request, typename Response>
  ActiveCallPtr Run(const char* method, WorkerPool Core::*pool, const Rpc<Request, Response>& rpc,
                    UnaryCall::Work work) {  // NOLINT(performance-unnecessary-value-param): moved
    return UnaryCall::Run({.state = state_, .context = rpc.context, .method = method, .pool = pool},
                          std::move(work));
  }
  // As Run, and reserves the bytes of the reply after the work.
  template <typename Request, typename Response>
  ActiveCallPtr RunAndReserve(
      const char* method, WorkerPool Core::*pool, const Rpc<Request, Response>& rpc,
      UnaryCall::Work work) {  // NOLINT(performance-unnecessary-value-param)
    return UnaryCall::Run({.state = state_,
                           .context = rpc.context,
                           .response = rpc.response,
                           .method = method,
                           .pool = pool},
                          std::move(work));
  }
  // Returns the options of a call that reads a collection after a wait for its min_epoch.
  template <typename Request, typename Response>
  UnaryCall::Options ReadOf(const Rpc<Request, Response>& rpc, const char* method) {
    UnaryCall::Options options = {.state = state_,
                                  .context = rpc.context,
                                  .method = method,
                                  .pool = &Core::reads,
                                  .collection = rpc.request->collection()};
    options.epochs = EpochsOf(*rpc.request);
    if (rpc.request->has_incarnation()) options.incarnation = rpc.request->incarnation();
    return options;
  }

  ServerState* const state_;
  const std::function<void()> names_changed_;
};

}  // namespace nearfield::server

// LocalService: the NearfieldService over the engine of this process.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "server/calls/nearfield_service.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

class LocalService final : public NearfieldService {
 public:
  // `state` outlives the service. `names_changed` is called on a worker after a call has added or
  // removed a name of a collection or an alias.
  LocalService(ServerState* state, std::function<void()> names_changed)
      : state_(state), names_changed_(std::move(names_changed)) {}

  // Retrieval.
  ActiveCallPtr Search(CallContext* context,
                       std::shared_ptr<const nearfield::v1::SearchRequest> request,
                       nearfield::v1::SearchResponse* response) override;
  ActiveCallPtr SearchStream(
      MessageStream<nearfield::v1::SearchRequest, nearfield::v1::SearchResponse>* context) override;
  ActiveCallPtr SearchAll(ReplyStream<nearfield::v1::SearchResponse>* context,
                          std::shared_ptr<const nearfield::v1::SearchAllRequest> request) override;
  ActiveCallPtr Fetch(CallContext* context,
                      std::shared_ptr<const nearfield::v1::FetchRequest> request,
                      nearfield::v1::FetchResponse* response) override;
  ActiveCallPtr Count(CallContext* context,
                      std::shared_ptr<const nearfield::v1::CountRequest> request,
                      nearfield::v1::CountResponse* response) override;
  ActiveCallPtr GetLimits(CallContext* context,
                          std::shared_ptr<const nearfield::v1::GetLimitsRequest> request,
                          nearfield::v1::GetLimitsResponse* response) override;

  // Ingest.
  ActiveCallPtr Upload(
      MessageStream<nearfield::v1::UploadRequest, nearfield::v1::UploadResponse>* context) override;
  ActiveCallPtr Delete(CallContext* context,
                       std::shared_ptr<const nearfield::v1::DeleteRequest> request,
                       nearfield::v1::DeleteResponse* response) override;
  ActiveCallPtr GetUpload(CallContext* context,
                          std::shared_ptr<const nearfield::v1::GetUploadRequest> request,
                          nearfield::v1::GetUploadResponse* response) override;
  ActiveCallPtr DropUpload(CallContext* context,
                           std::shared_ptr<const nearfield::v1::DropUploadRequest> request,
                           nearfield::v1::DropUploadResponse* response) override;
  ActiveCallPtr ListUploads(CallContext* context,
                            std::shared_ptr<const nearfield::v1::ListUploadsRequest> request,
                            nearfield::v1::ListUploadsResponse* response) override;

  // Admin.
  ActiveCallPtr CreateCollection(
      CallContext* context, std::shared_ptr<const nearfield::v1::CreateCollectionRequest> request,
      nearfield::v1::CreateCollectionResponse* response) override;
  ActiveCallPtr DropCollection(CallContext* context,
                               std::shared_ptr<const nearfield::v1::DropCollectionRequest> request,
                               nearfield::v1::DropCollectionResponse* response) override;
  ActiveCallPtr GetCollection(CallContext* context,
                              std::shared_ptr<const nearfield::v1::GetCollectionRequest> request,
                              nearfield::v1::GetCollectionResponse* response) override;
  ActiveCallPtr ListCollections(
      CallContext* context, std::shared_ptr<const nearfield::v1::ListCollectionsRequest> request,
      nearfield::v1::ListCollectionsResponse* response) override;
  ActiveCallPtr GetCapacity(CallContext* context,
                            std::shared_ptr<const nearfield::v1::GetCapacityRequest> request,
                            nearfield::v1::GetCapacityResponse* response) override;
  ActiveCallPtr GetCounters(CallContext* context,
                            std::shared_ptr<const nearfield::v1::GetCountersRequest> request,
                            nearfield::v1::GetCountersResponse* response) override;
  ActiveCallPtr Verify(CallContext* context,
                       std::shared_ptr<const nearfield::v1::VerifyRequest> request,
                       nearfield::v1::VerifyResponse* response) override;
  ActiveCallPtr SetAlias(CallContext* context,
                         std::shared_ptr<const nearfield::v1::SetAliasRequest> request,
                         nearfield::v1::SetAliasResponse* response) override;
  ActiveCallPtr DropAlias(CallContext* context,
                          std::shared_ptr<const nearfield::v1::DropAliasRequest> request,
                          nearfield::v1::DropAliasResponse* response) override;
  ActiveCallPtr CreateSnapshot(CallContext* context,
                               std::shared_ptr<const nearfield::v1::CreateSnapshotRequest> request,
                               nearfield::v1::CreateSnapshotResponse* response) override;
  ActiveCallPtr ListSnapshots(CallContext* context,
                              std::shared_ptr<const nearfield::v1::ListSnapshotsRequest> request,
                              nearfield::v1::ListSnapshotsResponse* response) override;
  ActiveCallPtr Compact(CallContext* context,
                        std::shared_ptr<const nearfield::v1::CompactRequest> request,
                        nearfield::v1::CompactResponse* response) override;

  ActiveCallPtr Refuse(CallContext* context, const char* method,
                       const absl::Status& status) override;

 private:
  ServerState* const state_;
  const std::function<void()> names_changed_;
};

}  // namespace nearfield::server

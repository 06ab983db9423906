// AdminService: the service Admin. Contract: proto/nearfield/v1/admin.proto.
#ifndef NEARFIELD_SERVER_SERVICE_ADMIN_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_ADMIN_SERVICE_H_

#include <functional>
#include <memory>
#include <utility>

#include "nearfield/v1/admin.grpc.pb.h"
#include "server/service/decoding_service.h"
#include "server/service/server_state.h"

namespace nearfield::server {

class AdminService final : public DecodingService<nearfield::v1::Admin::Service> {
 public:
  // `state` outlives the service. `names_changed` is called on a worker after a call has added or
  // removed a name of a collection or an alias.
  AdminService(ServerState* state, std::function<void()> names_changed);

 private:
  grpc::ServerUnaryReactor* CreateCollection(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::CreateCollectionRequest> request,
      nearfield::v1::CreateCollectionResponse* response);
  grpc::ServerUnaryReactor* DropCollection(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::DropCollectionRequest> request,
      nearfield::v1::DropCollectionResponse* response);
  grpc::ServerUnaryReactor* GetCollection(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::GetCollectionRequest> request,
      nearfield::v1::GetCollectionResponse* response);
  grpc::ServerUnaryReactor* ListCollections(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::ListCollectionsRequest> request,
      nearfield::v1::ListCollectionsResponse* response);
  grpc::ServerUnaryReactor* GetCapacity(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::GetCapacityRequest> request,
      nearfield::v1::GetCapacityResponse* response);
  grpc::ServerUnaryReactor* GetCounters(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::GetCountersRequest> request,
      nearfield::v1::GetCountersResponse* response);
  grpc::ServerUnaryReactor* Verify(grpc::CallbackServerContext* context,
                                   std::shared_ptr<const nearfield::v1::VerifyRequest> request,
                                   nearfield::v1::VerifyResponse* response);
  grpc::ServerUnaryReactor* SetAlias(grpc::CallbackServerContext* context,
                                     std::shared_ptr<const nearfield::v1::SetAliasRequest> request,
                                     nearfield::v1::SetAliasResponse* response);
  grpc::ServerUnaryReactor* DropAlias(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::DropAliasRequest> request,
      nearfield::v1::DropAliasResponse* response);
  grpc::ServerUnaryReactor* CreateSnapshot(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::CreateSnapshotRequest> request,
      nearfield::v1::CreateSnapshotResponse* response);
  grpc::ServerUnaryReactor* ListSnapshots(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::ListSnapshotsRequest> request,
      nearfield::v1::ListSnapshotsResponse* response);
  grpc::ServerUnaryReactor* Compact(grpc::CallbackServerContext* context,
                                    std::shared_ptr<const nearfield::v1::CompactRequest> request,
                                    nearfield::v1::CompactResponse* response);

  const std::function<void()> names_changed_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_ADMIN_SERVICE_H_

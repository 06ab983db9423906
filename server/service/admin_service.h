// The Admin service; contract: proto/nearfield/v1/admin.proto.
#ifndef NEARFIELD_SERVER_SERVICE_ADMIN_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_ADMIN_SERVICE_H_

#include <functional>
#include <utility>

#include "nearfield/v1/admin.grpc.pb.h"
#include "server/service/server_state.h"

namespace nearfield::server {

class AdminService final : public nearfield::v1::Admin::CallbackService {
 public:
  // `state` outlives the service. `names_changed` is called on a worker, after a call has changed
  // which names of collections and aliases there are.
  AdminService(ServerState* state, std::function<void()> names_changed)
      : state_(state), names_changed_(std::move(names_changed)) {}

  grpc::ServerUnaryReactor* CreateCollection(
      grpc::CallbackServerContext* context, const nearfield::v1::CreateCollectionRequest* request,
      nearfield::v1::CreateCollectionResponse* response) override;
  grpc::ServerUnaryReactor* DropCollection(
      grpc::CallbackServerContext* context, const nearfield::v1::DropCollectionRequest* request,
      nearfield::v1::DropCollectionResponse* response) override;
  grpc::ServerUnaryReactor* GetCollection(grpc::CallbackServerContext* context,
                                          const nearfield::v1::GetCollectionRequest* request,
                                          nearfield::v1::GetCollectionResponse* response) override;
  grpc::ServerUnaryReactor* ListCollections(
      grpc::CallbackServerContext* context, const nearfield::v1::ListCollectionsRequest* request,
      nearfield::v1::ListCollectionsResponse* response) override;
  grpc::ServerUnaryReactor* GetCapacity(grpc::CallbackServerContext* context,
                                        const nearfield::v1::GetCapacityRequest* request,
                                        nearfield::v1::GetCapacityResponse* response) override;
  grpc::ServerUnaryReactor* GetCounters(grpc::CallbackServerContext* context,
                                        const nearfield::v1::GetCountersRequest* request,
                                        nearfield::v1::GetCountersResponse* response) override;
  grpc::ServerUnaryReactor* Verify(grpc::CallbackServerContext* context,
                                   const nearfield::v1::VerifyRequest* request,
                                   nearfield::v1::VerifyResponse* response) override;
  grpc::ServerUnaryReactor* SetAlias(grpc::CallbackServerContext* context,
                                     const nearfield::v1::SetAliasRequest* request,
                                     nearfield::v1::SetAliasResponse* response) override;
  grpc::ServerUnaryReactor* DropAlias(grpc::CallbackServerContext* context,
                                      const nearfield::v1::DropAliasRequest* request,
                                      nearfield::v1::DropAliasResponse* response) override;
  grpc::ServerUnaryReactor* CreateSnapshot(
      grpc::CallbackServerContext* context, const nearfield::v1::CreateSnapshotRequest* request,
      nearfield::v1::CreateSnapshotResponse* response) override;
  grpc::ServerUnaryReactor* ListSnapshots(grpc::CallbackServerContext* context,
                                          const nearfield::v1::ListSnapshotsRequest* request,
                                          nearfield::v1::ListSnapshotsResponse* response) override;
  grpc::ServerUnaryReactor* Compact(grpc::CallbackServerContext* context,
                                    const nearfield::v1::CompactRequest* request,
                                    nearfield::v1::CompactResponse* response) override;

 private:
  ServerState* const state_;
  const std::function<void()> names_changed_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_ADMIN_SERVICE_H_

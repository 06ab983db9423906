#include "server/service/admin_service.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/admin.h"
#include "server/service/unary_call.h"
#include "server/service/verify_call.h"

namespace nearfield::server {
namespace {

void Describe(const NamedCollection& named, pb::CollectionInfo* info) {
  ToProto(named.name, named.collection->spec(), named.collection->Stats(), info);
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::CreateCollection(grpc::CallbackServerContext* context,
                                                         const pb::CreateCollectionRequest* request,
                                                         pb::CreateCollectionResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "CreateCollection", .pool = &Core::reads},
      [request, response](Core& core, Call& call) -> absl::Status {
        call.record.collection = request->name();
        ABSL_RETURN_IF_ERROR(ValidateCollectionName(request->name()));
        ABSL_ASSIGN_OR_RETURN(const CollectionSpec spec, FromProto(*request));
        ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Create(request->name(), spec));
        Describe(*named, response->mutable_collection());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::DropCollection(grpc::CallbackServerContext* context,
                                                       const pb::DropCollectionRequest* request,
                                                       pb::DropCollectionResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "DropCollection", .pool = &Core::reads},
      [request, response](Core& core, Call& call) -> absl::Status {
        call.record.collection = request->name();
        ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Drop(request->name()));
        call.record.rows = named->collection->Stats().rows_count;
        response->set_rows_count(static_cast<uint64_t>(call.record.rows));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::GetCollection(grpc::CallbackServerContext* context,
                                                      const pb::GetCollectionRequest* request,
                                                      pb::GetCollectionResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "GetCollection", .pool = &Core::reads},
      [request, response](Core& core, Call& call) -> absl::Status {
        call.record.collection = request->name();
        ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Find(request->name()));
        Describe(*named, response->mutable_collection());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::ListCollections(
    grpc::CallbackServerContext* context, const pb::ListCollectionsRequest* /*request*/,
    pb::ListCollectionsResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "ListCollections", .pool = &Core::reads},
      [response](Core& core, Call& /*call*/) {
        for (const auto& named : core.catalog.List()) Describe(*named, response->add_collections());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::GetCapacity(grpc::CallbackServerContext* context,
                                                    const pb::GetCapacityRequest* /*request*/,
                                                    pb::GetCapacityResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "GetCapacity", .pool = &Core::reads},
      [response](Core& core, Call& /*call*/) {
        ToProto(core.engine->Info(), core.engine->GetCapacity(), response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::Verify(grpc::CallbackServerContext* context,
                                               const pb::VerifyRequest* request,
                                               pb::VerifyResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "Verify", .pool = &Core::verifications},
      [request, response](Core& core, Call& call) {
        return VerifyAnswer(core, call, *request, response);
      });
}

}  // namespace nearfield::server

#include "server/service/ingest_service.h"

#include "engine/base/status_macros.h"
#include "server/convert/ingest.h"
#include "server/service/unary_call.h"
#include "server/service/upload_stream.h"

namespace nearfield::server {
namespace {

absl::Status DeleteRows(const Core& core, const RequestLimits& limits,
                        const pb::DeleteRequest& request, pb::DeleteResponse* response) {
  if (request.has_filter()) return Reserved("filter", "deletes by filter");
  ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Find(request.collection()));
  ABSL_ASSIGN_OR_RETURN(const IdColumn ids, FromProto(request, named->collection->spec(), limits));
  ABSL_ASSIGN_OR_RETURN(const DeleteResult result, named->collection->Delete(ids));
  response->set_epoch(result.epoch);
  response->set_rows_deleted(static_cast<uint64_t>(result.rows_deleted));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerBidiReactor<pb::UploadRequest, pb::UploadResponse>* IngestService::Upload(
    grpc::CallbackServerContext* context) {
  return StartUploadStream(state_, context);
}

grpc::ServerUnaryReactor* IngestService::Delete(grpc::CallbackServerContext* context,
                                                const pb::DeleteRequest* request,
                                                pb::DeleteResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "Delete", .pool = &Core::deletes},
      [request, response](Core& core, Call& call) {
        call.record.collection = request->collection();
        const absl::Status status = DeleteRows(core, call.state()->limits(), *request, response);
        call.record.rows = static_cast<int64_t>(response->rows_deleted());
        return status;
      });
}

}  // namespace nearfield::server

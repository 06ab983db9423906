#include "server/service/ingest_service.h"

#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/ingest.h"
#include "server/service/choose_rows.h"
#include "server/service/unary_call.h"
#include "server/service/upload_stream.h"

namespace nearfield::server {
namespace {

absl::Status DeleteFrom(const Core& core, const Call& call, const pb::DeleteRequest& request,
                        pb::DeleteResponse* response) {
  ABSL_RETURN_IF_ERROR(CheckOneOfIdsAndFilter(request));
  ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Find(request.collection()));
  DeleteResult result;
  if (request.has_filter()) {
    ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, ChooseRows(*named, request.filter(), call));
    ABSL_ASSIGN_OR_RETURN(result, server::DeleteRows(*named, chosen));
  } else {
    ABSL_ASSIGN_OR_RETURN(const IdColumn ids,
                          FromProto(request, named->collection->spec(), call.state()->limits()));
    ABSL_ASSIGN_OR_RETURN(result, server::DeleteRows(*named, ids));
  }
  response->set_epoch(result.epoch);
  response->set_incarnation(named->incarnation);
  response->set_rows_deleted(static_cast<uint64_t>(result.rows_deleted));
  return absl::OkStatus();
}

absl::Status CheckToken(const std::string& token) {
  return token.empty() ? ArgumentError("upload_token", "absent", "absent") : absl::OkStatus();
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
        const absl::Status status = DeleteFrom(core, call, *request, response);
        call.record.rows = static_cast<int64_t>(response->rows_deleted());
        return status;
      });
}

grpc::ServerUnaryReactor* IngestService::GetUpload(grpc::CallbackServerContext* context,
                                                   const pb::GetUploadRequest* request,
                                                   pb::GetUploadResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "GetUpload", .pool = &Core::reads},
      [request, response](Core& core, Call& /*call*/) -> absl::Status {
        ABSL_RETURN_IF_ERROR(CheckToken(request->upload_token()));
        ABSL_ASSIGN_OR_RETURN(const auto facts, core.catalog.GetUpload(request->upload_token()));
        response->set_committed(facts.state == store::UploadState::kCommitted);
        response->set_next_block(static_cast<uint64_t>(facts.next_block));
        response->set_rows_count(static_cast<uint64_t>(facts.rows_count));
        response->set_epoch(facts.epoch);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* IngestService::DropUpload(grpc::CallbackServerContext* context,
                                                    const pb::DropUploadRequest* request,
                                                    pb::DropUploadResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "DropUpload", .pool = &Core::deletes},
      [request, response](Core& core, Call& /*call*/) -> absl::Status {
        ABSL_RETURN_IF_ERROR(CheckToken(request->upload_token()));
        ABSL_ASSIGN_OR_RETURN(const auto facts, core.catalog.DropUpload(request->upload_token()));
        response->set_rows_count(static_cast<uint64_t>(facts.rows_count));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* IngestService::ListUploads(grpc::CallbackServerContext* context,
                                                     const pb::ListUploadsRequest* request,
                                                     pb::ListUploadsResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "ListUploads", .pool = &Core::reads},
      [request, response](Core& core, Call& /*call*/) -> absl::Status {
        ABSL_ASSIGN_OR_RETURN(const int64_t uploads_max, FromProto(*request));
        ABSL_ASSIGN_OR_RETURN(const auto uploads, core.catalog.ListUploads());
        for (const Catalog::ListedUpload& listed : uploads) {
          if (response->uploads_size() == uploads_max) break;
          ToProto(listed, response->add_uploads());
        }
        response->set_uploads_count(uploads.size());
        return absl::OkStatus();
      });
}

}  // namespace nearfield::server

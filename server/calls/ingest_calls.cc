#include "server/calls/local_service.h"

#include <memory>
#include <optional>

#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/calls/choose_rows.h"
#include "server/calls/unary_call.h"
#include "server/calls/upload_stream.h"
#include "server/convert/ingest.h"

namespace nearfield::server {
namespace {

// State of a delete. A delete by filter chooses its rows in a separate step before the deletion.
struct DeleteSteps {
  std::shared_ptr<NamedCollection> named;
  std::optional<ChosenRows> chosen;
};

absl::Status ChooseDoomed(const Core& core, Call& call, const pb::DeleteRequest& request,
                          DeleteSteps* steps) {
  ABSL_RETURN_IF_ERROR(CheckOneOfIdsAndFilter(request));
  ABSL_ASSIGN_OR_RETURN(steps->named, core.catalog.Find(request.collection()));
  ABSL_ASSIGN_OR_RETURN(steps->chosen, ChooseRows(*steps->named, request.filter(), call));
  return absl::OkStatus();
}

absl::StatusOr<DeleteResult> DeleteDoomed(const Core& core, const Call& call,
                                          const pb::DeleteRequest& request, DeleteSteps* steps) {
  if (steps->chosen.has_value()) return server::DeleteRows(*steps->named, *steps->chosen);
  ABSL_RETURN_IF_ERROR(CheckOneOfIdsAndFilter(request));
  ABSL_ASSIGN_OR_RETURN(steps->named, core.catalog.Find(request.collection()));
  ABSL_ASSIGN_OR_RETURN(const IdColumn ids, FromProto(request, steps->named->collection->spec(),
                                                      call.state()->limits()));
  return server::DeleteRows(*steps->named, ids);
}

absl::Status CheckToken(const std::string& token) {
  return token.empty() ? ArgumentError("upload_token", "absent", "absent") : absl::OkStatus();
}

}  // namespace

ActiveCallPtr LocalService::Upload(UploadMessages* context) {
  return StartUploadStream(state_, context);
}

ActiveCallPtr LocalService::Delete(CallContext* context,
                                   std::shared_ptr<const pb::DeleteRequest> request,
                                   pb::DeleteResponse* response) {
  UnaryCall::Options options = {
      .state = state_, .context = context, .method = "Delete", .pool = &Core::deletes};
  const auto steps = std::make_shared<DeleteSteps>();
  if (request->has_filter()) {
    options.choose = [request, steps](Core& core, Call& call) {
      call.record.collection = request->collection();
      return ChooseDoomed(core, call, *request, steps.get());
    };
  }
  return UnaryCall::Run(options, [request, response, steps](Core& core, Call& call) {
    call.record.collection = request->collection();
    const absl::StatusOr<DeleteResult> result = DeleteDoomed(core, call, *request, steps.get());
    if (!result.ok()) return result.status();
    response->set_epoch(result->epoch);
    response->set_incarnation(steps->named->incarnation);
    response->set_rows_deleted(static_cast<uint64_t>(result->rows_deleted));
    call.record.rows = result->rows_deleted;
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::GetUpload(CallContext* context,
                                      std::shared_ptr<const pb::GetUploadRequest> request,
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

ActiveCallPtr LocalService::DropUpload(CallContext* context,
                                       std::shared_ptr<const pb::DropUploadRequest> request,
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

ActiveCallPtr LocalService::ListUploads(CallContext* context,
                                        std::shared_ptr<const pb::ListUploadsRequest> request,
                                        pb::ListUploadsResponse* response) {
  return UnaryCall::Run({.state = state_,
                         .context = context,
                         .response = response,
                         .method = "ListUploads",
                         .pool = &Core::reads},
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

#include "server/rpc/local_service.h"

#include <memory>
#include <optional>

#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/collections/delete_rows.h"
#include "server/convert/ingest.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/find_collection.h"
#include "server/rpc/streams.h"
#include "server/rpc/unary_call.h"

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
  ABSL_ASSIGN_OR_RETURN(steps->named, call.Find(core, request.collection()));
  ABSL_ASSIGN_OR_RETURN(steps->chosen, ChooseRows(*steps->named, FilterOf(request), nullptr, call));
  return absl::OkStatus();
}

absl::StatusOr<DeleteResult> DeleteDoomed(const Core& core, const Call& call,
                                          const pb::DeleteRequest& request, DeleteSteps* steps) {
  if (steps->chosen.has_value()) return server::DeleteRows(*steps->named, *steps->chosen);
  ABSL_RETURN_IF_ERROR(CheckOneOfIdsAndFilter(request));
  ABSL_ASSIGN_OR_RETURN(steps->named, call.Find(core, request.collection()));
  ABSL_ASSIGN_OR_RETURN(const IdColumn ids, FromProto(request, steps->named->collection->spec(),
                                                      call.state()->limits()));
  return server::DeleteRows(*steps->named, ids);
}

// Finds the collection of an upload that a request names. A collection that the key does not cover
// has no uploads for the caller: the reply must not show whether it exists. Errors: InvalidArgument
// (a field is absent), NotFound, FailedPrecondition (nothing is stored).
template <typename Request>
absl::StatusOr<NamedCollectionPtr> FindForToken(const Core& core, Call& call,
                                                const Request& request) {
  call.record.collection = request.collection();
  if (request.collection().empty()) return ArgumentError("collection", "absent", "absent");
  if (request.upload_token().empty()) return ArgumentError("upload_token", "absent", "absent");
  if (core.catalog.store() == nullptr) {
    return absl::FailedPreconditionError(
        "upload_token: this server keeps no data directory (data_dir is none)");
  }
  absl::StatusOr<NamedCollectionPtr> named = call.Find(core, request.collection());
  if (named.ok() || !absl::IsPermissionDenied(named.status())) return named;
  return absl::NotFoundError(
      "upload_token: no upload into a collection that the key covers has this token");
}

store::UploadKey KeyOf(const NamedCollection& named, const std::string& token) {
  return {.collection_id = named.store_id, .token = token};
}

}  // namespace

ActiveCallPtr LocalService::Upload(UploadMessages* context) {
  return StartUploadStream(state_, context);
}

ActiveCallPtr LocalService::Delete(Rpc<pb::DeleteRequest, pb::DeleteResponse> rpc) {
  UnaryCall::Options options = {
      .state = state_, .context = rpc.context, .method = "Delete", .pool = &Core::deletes};
  const auto steps = std::make_shared<DeleteSteps>();
  if (FilterOf(*rpc.request).given()) {
    options.choose = [request = rpc.request, steps](Core& core, Call& call) {
      call.record.collection = request->collection();
      return ChooseDoomed(core, call, *request, steps.get());
    };
  }
  return UnaryCall::Run(options, [rpc, steps](Core& core, Call& call) {
    call.record.collection = rpc.request->collection();
    const absl::StatusOr<DeleteResult> result = DeleteDoomed(core, call, *rpc.request, steps.get());
    if (!result.ok()) return result.status();
    rpc.response->set_epoch(result->epoch);
    rpc.response->set_incarnation(steps->named->incarnation);
    rpc.response->set_rows_deleted(static_cast<uint64_t>(result->rows_deleted));
    call.record.rows = result->rows_deleted;
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::GetUpload(Rpc<pb::GetUploadRequest, pb::GetUploadResponse> rpc) {
  return Run("GetUpload", &Core::reads, rpc, [rpc](Core& core, Call& call) -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(const auto named, FindForToken(core, call, *rpc.request));
    ABSL_ASSIGN_OR_RETURN(const auto facts,
                          named->store->GetUpload(KeyOf(*named, rpc.request->upload_token())));
    rpc.response->set_committed(facts.state == store::UploadState::kCommitted);
    rpc.response->set_next_block(static_cast<uint64_t>(facts.next_block));
    rpc.response->set_rows_count(static_cast<uint64_t>(facts.rows_count));
    rpc.response->set_epoch(facts.epoch);
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::DropUpload(Rpc<pb::DropUploadRequest, pb::DropUploadResponse> rpc) {
  return Run("DropUpload", &Core::deletes, rpc, [rpc](Core& core, Call& call) -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(const auto named, FindForToken(core, call, *rpc.request));
    ABSL_ASSIGN_OR_RETURN(const auto facts,
                          named->store->DropUpload(KeyOf(*named, rpc.request->upload_token())));
    rpc.response->set_rows_count(static_cast<uint64_t>(facts.rows_count));
    return absl::OkStatus();
  });
}

ActiveCallPtr LocalService::ListUploads(Rpc<pb::ListUploadsRequest, pb::ListUploadsResponse> rpc) {
  return RunAndReserve("ListUploads", &Core::reads, rpc,
                       [rpc](Core& core, Call& call) -> absl::Status {
                         ABSL_ASSIGN_OR_RETURN(const int64_t uploads_max, FromProto(*rpc.request));
                         ABSL_ASSIGN_OR_RETURN(auto uploads, core.catalog.ListUploads());
                         std::erase_if(uploads, [&call](const Catalog::ListedUpload& listed) {
                           return call.key() != nullptr && !call.key()->Covers(listed.collection);
                         });
                         for (const Catalog::ListedUpload& listed : uploads) {
                           if (rpc.response->uploads_size() == uploads_max) break;
                           ToProto(listed, rpc.response->add_uploads());
                         }
                         rpc.response->set_uploads_count(uploads.size());
                         return absl::OkStatus();
                       });
}

}  // namespace nearfield::server

#include "server/service/retrieval_service.h"

#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/retrieval.h"
#include "server/service/search_call.h"
#include "server/service/search_stream.h"
#include "server/service/unary_call.h"

namespace nearfield::server {
namespace {

class SearchReactor final : public grpc::ServerUnaryReactor {
 public:
  SearchReactor(ServerState* state, grpc::CallbackServerContext* context)
      : call_(state, context, "Search") {}

  void Start(const pb::SearchRequest& request, pb::SearchResponse* response) {
    call_.record.collection = request.collection();
    const absl::StatusOr<Core*> core = call_.Enter();
    if (!core.ok()) return Finish(call_.Close(core.status()));
    StartSearch(*core, call_, request, response,
                [this](const absl::Status& status, const SearchFacts& facts) {
                  Note(facts, &call_.record);
                  Finish(call_.Close(status));
                });
  }

  void OnCancel() override { call_.cancelled()->store(true); }
  void OnDone() override { delete this; }

 private:
  Call call_;
};

absl::Status FetchRows(const Core& core, const RequestLimits& limits,
                       const pb::FetchRequest& request, pb::FetchResponse* response) {
  ABSL_RETURN_IF_ERROR(CheckServed(request));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<NamedCollection> named,
                        core.catalog.Find(request.collection()));
  const CollectionSpec& spec = named->collection->spec();
  ABSL_ASSIGN_OR_RETURN(const IdColumn ids, IdsFromProto("ids", request.ids(), spec.id_type,
                                                         {.min = 1, .max = limits.fetch_ids_max}));
  const RowParts parts = PartsFromProto(request, limits);
  const absl::StatusOr<FetchResult> fetched = named->collection->Fetch(ids, parts);
  ABSL_RETURN_IF_ERROR(WithAdvice(fetched.status(), kFetchAdvice));
  const FetchResult& found = *fetched;
  ABSL_RETURN_IF_ERROR(CheckReplyBytes(ReplyBytesMin(found), limits, kFetchAdvice));
  ToProto(spec, parts, ids, found, response);
  return CheckReplyBytes(static_cast<int64_t>(response->ByteSizeLong()), limits, kFetchAdvice);
}

}  // namespace

grpc::ServerUnaryReactor* RetrievalService::Search(grpc::CallbackServerContext* context,
                                                   const pb::SearchRequest* request,
                                                   pb::SearchResponse* response) {
  auto* reactor = new SearchReactor(state_, context);
  reactor->Start(*request, response);
  return reactor;
}

grpc::ServerBidiReactor<pb::SearchRequest, pb::SearchResponse>* RetrievalService::SearchStream(
    grpc::CallbackServerContext* context) {
  return StartSearchStream(state_, context);
}

grpc::ServerUnaryReactor* RetrievalService::Fetch(grpc::CallbackServerContext* context,
                                                  const pb::FetchRequest* request,
                                                  pb::FetchResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "Fetch", .pool = &Core::reads},
      [request, response](Core& core, Call& call) {
        call.record.collection = request->collection();
        const absl::Status status = FetchRows(core, call.state()->limits(), *request, response);
        if (!status.ok()) response->Clear();
        call.record.rows = response->ids().numbers_size() + response->ids().texts_size();
        return status;
      });
}

grpc::ServerUnaryReactor* RetrievalService::Count(grpc::CallbackServerContext* context,
                                                  const pb::CountRequest* request,
                                                  pb::CountResponse* response) {
  return UnaryCall::Run(
      {.state = state_, .context = context, .method = "Count", .pool = &Core::reads},
      [request, response](Core& core, Call& call) -> absl::Status {
        call.record.collection = request->collection();
        ABSL_RETURN_IF_ERROR(CheckServed(*request));
        ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Find(request->collection()));
        const CollectionStats stats = named->collection->Stats();
        response->set_epoch(stats.epoch);
        response->set_rows_count(static_cast<uint64_t>(stats.rows_count));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* RetrievalService::GetLimits(grpc::CallbackServerContext* context,
                                                      const pb::GetLimitsRequest* /*request*/,
                                                      pb::GetLimitsResponse* response) {
  // Answered in every phase, on the spot.
  Call call(state_, context, "GetLimits");
  ToProto(state_->limits(), response);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(call.Close(absl::OkStatus()));
  return reactor;
}

}  // namespace nearfield::server

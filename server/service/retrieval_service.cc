#include "server/service/retrieval_service.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/retrieval.h"
#include "server/service/choose_rows.h"
#include "server/service/search_all.h"
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
    StartSearch(*core, call_, request, {.response = response, .holds = &call_.holds},
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

absl::StatusOr<std::shared_ptr<NamedCollection>> Find(const Core& core, const Call& call,
                                                      const std::string& name) {
  if (call.named != nullptr) return call.named;
  return core.catalog.Find(name);
}

absl::StatusOr<IdColumn> IdsOf(const pb::FetchRequest& request, const NamedCollection& named,
                               const RequestLimits& limits) {
  return IdsFromProto("ids", request.ids(), named.collection->spec().id_type,
                      {.min = 1, .max = limits.fetch_ids_max});
}

absl::Status FetchRows(const Core& core, Call& call, const pb::FetchRequest& request,
                       pb::FetchResponse* response) {
  const RequestLimits& limits = call.state()->limits();
  ABSL_ASSIGN_OR_RETURN(const auto named, Find(core, call, request.collection()));
  const CollectionSpec& spec = named->collection->spec();
  ABSL_ASSIGN_OR_RETURN(const IdColumn ids, IdsOf(request, *named, limits));
  const RowParts parts = PartsFromProto(request, limits);
  ABSL_ASSIGN_OR_RETURN(call.holds.reply,
                        call.state()->ledger().replies.Reserve(
                            call.caller(), ReplyBytesMax(spec, parts, ids, limits)));
  const absl::StatusOr<FetchResult> fetched = named->collection->Fetch(ids, parts);
  ABSL_RETURN_IF_ERROR(WithAdvice(fetched.status(), kFetchAdvice));
  const FetchResult& found = *fetched;
  ABSL_RETURN_IF_ERROR(CheckReplyBytes(ReplyBytesMin(found), limits, kFetchAdvice));
  ToProto(spec, parts, ids, found, response);
  response->set_incarnation(named->incarnation);
  const auto bytes = static_cast<int64_t>(response->ByteSizeLong());
  call.holds.reply.Resize(bytes);
  return CheckReplyBytes(bytes, limits, kFetchAdvice);
}

absl::Status CountRows(const Core& core, Call& call, const pb::CountRequest& request,
                       pb::CountResponse* response) {
  ABSL_ASSIGN_OR_RETURN(const auto named, Find(core, call, request.collection()));
  std::shared_ptr<const PinnedEpoch> at;
  int64_t rows_count = 0;
  if (request.has_filter()) {
    ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, ChooseRows(*named, request.filter(), call));
    at = chosen.at;
    ABSL_ASSIGN_OR_RETURN(rows_count, named->collection->CountRows(at.get(), *chosen.rows));
  } else {
    at = named->collection->PinEpoch();
    rows_count = at->rows_count();
  }
  response->set_epoch(at->epoch());
  response->set_incarnation(named->incarnation);
  response->set_rows_count(static_cast<uint64_t>(rows_count));
  return absl::OkStatus();
}

template <typename Request>
std::optional<uint64_t> MinEpochOf(const Request& request) {
  if (!request.has_min_epoch()) return std::nullopt;
  return request.min_epoch();
}

template <typename Request>
std::optional<uint64_t> IncarnationOf(const Request& request) {
  if (!request.has_incarnation()) return std::nullopt;
  return request.incarnation();
}

}  // namespace

RetrievalService::RetrievalService(ServerState* state) : DecodingService(state) {
  Answer("nearfield.v1.Retrieval.Search", &RetrievalService::Search);
  Answer("nearfield.v1.Retrieval.SearchStream", &RetrievalService::SearchStream);
  Answer("nearfield.v1.Retrieval.SearchAll", &RetrievalService::SearchAll);
  Answer("nearfield.v1.Retrieval.Fetch", &RetrievalService::Fetch);
  Answer("nearfield.v1.Retrieval.Count", &RetrievalService::Count);
  Answer("nearfield.v1.Retrieval.GetLimits", &RetrievalService::GetLimits);
}

grpc::ServerUnaryReactor* RetrievalService::Search(grpc::CallbackServerContext* context,
                                                   std::shared_ptr<const pb::SearchRequest> request,
                                                   pb::SearchResponse* response) {
  auto* reactor = new SearchReactor(state_, context);
  reactor->Start(*request, response);
  return reactor;
}

SearchStreamReactor* RetrievalService::SearchStream(grpc::CallbackServerContext* context) {
  return StartSearchStream(state_, context);
}

grpc::ServerWriteReactor<pb::SearchResponse>* RetrievalService::SearchAll(
    grpc::CallbackServerContext* context, std::shared_ptr<const pb::SearchAllRequest> request) {
  return StartSearchAll(state_, context, *request);
}

grpc::ServerUnaryReactor* RetrievalService::Fetch(grpc::CallbackServerContext* context,
                                                  std::shared_ptr<const pb::FetchRequest> request,
                                                  pb::FetchResponse* response) {
  return UnaryCall::Run({.state = state_,
                         .context = context,
                         .method = "Fetch",
                         .pool = &Core::reads,
                         .collection = request->collection(),
                         .min_epoch = MinEpochOf(*request),
                         .incarnation = IncarnationOf(*request),
                         .check =
                             [this, request](const NamedCollection& named) {
                               return IdsOf(*request, named, state_->limits()).status();
                             }},
                        [request, response](Core& core, Call& call) {
                          call.record.collection = request->collection();
                          const absl::Status status = FetchRows(core, call, *request, response);
                          if (!status.ok()) {
                            response->Clear();
                            call.holds.reply.Resize(0);
                          }
                          call.record.rows =
                              response->ids().numbers_size() + response->ids().texts_size();
                          return status;
                        });
}

grpc::ServerUnaryReactor* RetrievalService::Count(grpc::CallbackServerContext* context,
                                                  std::shared_ptr<const pb::CountRequest> request,
                                                  pb::CountResponse* response) {
  return UnaryCall::Run({.state = state_,
                         .context = context,
                         .method = "Count",
                         .pool = request->has_filter() ? &Core::filters : &Core::reads,
                         .collection = request->collection(),
                         .min_epoch = MinEpochOf(*request),
                         .incarnation = IncarnationOf(*request),
                         .check =
                             [request](const NamedCollection& named) {
                               return request->has_filter() ? CheckFilter(named, request->filter())
                                                            : absl::OkStatus();
                             }},
                        [request, response](Core& core, Call& call) {
                          call.record.collection = request->collection();
                          return CountRows(core, call, *request, response);
                        });
}

grpc::ServerUnaryReactor* RetrievalService::GetLimits(
    grpc::CallbackServerContext* context, std::shared_ptr<const pb::GetLimitsRequest> /*request*/,
    pb::GetLimitsResponse* response) {
  // Answered in every phase, on this thread.
  Call call(state_, context, "GetLimits");
  ToProto(state_->limits(), response);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(call.Close(absl::OkStatus()));
  return reactor;
}

}  // namespace nearfield::server

#include "server/calls/local_service.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/calls/choose_rows.h"
#include "server/calls/search_call.h"
#include "server/calls/streams.h"
#include "server/calls/unary_call.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {
namespace {

class SingleSearch final : public ActiveCall {
 public:
  SingleSearch(ServerState* state, CallContext* context) : call_(state, context, "Search") {}

  void Start(const pb::SearchRequest& request, pb::SearchResponse* response) {
    call_.record.collection = request.collection();
    const absl::StatusOr<Core*> core = call_.Enter();
    if (!core.ok()) return call_.Finish(core.status());
    StartSearch(*core, call_, request, {.response = response, .holds = &call_.holds},
                [this](const absl::Status& status, const SearchFacts& facts) {
                  Note(facts, &call_.record);
                  call_.Finish(status);
                });
  }

  void OnCancel() override { call_.cancelled()->store(true); }

 private:
  Call call_;
};

// A call that ends before its method returns.
class EndedCall final : public ActiveCall {
 public:
  EndedCall(ServerState* state, CallContext* context, const char* method)
      : call(state, context, method) {}
  void OnCancel() override {}

  Call call;
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

}  // namespace

ActiveCallPtr LocalService::Search(Rpc<pb::SearchRequest, pb::SearchResponse> rpc) {
  auto search = std::make_shared<SingleSearch>(state_, rpc.context);
  search->Start(*rpc.request, rpc.response);
  return search;
}

ActiveCallPtr LocalService::SearchStream(SearchMessages* context) {
  return StartSearchStream(state_, context);
}

ActiveCallPtr LocalService::SearchAll(SearchReplies* context,
                                      std::shared_ptr<const pb::SearchAllRequest> request) {
  return StartSearchAll(state_, context, *request);
}

ActiveCallPtr LocalService::Fetch(Rpc<pb::FetchRequest, pb::FetchResponse> rpc) {
  UnaryCall::Options options = ReadOf(rpc, "Fetch");
  options.check = [this, request = rpc.request](const NamedCollection& named) {
    return IdsOf(*request, named, state_->limits()).status();
  };
  return UnaryCall::Run(options, [rpc](Core& core, Call& call) {
    call.record.collection = rpc.request->collection();
    const absl::Status status = FetchRows(core, call, *rpc.request, rpc.response);
    if (!status.ok()) {
      rpc.response->Clear();
      call.holds.reply.Resize(0);
    }
    call.record.rows = rpc.response->ids().numbers_size() + rpc.response->ids().texts_size();
    return status;
  });
}

ActiveCallPtr LocalService::Count(Rpc<pb::CountRequest, pb::CountResponse> rpc) {
  UnaryCall::Options options = ReadOf(rpc, "Count");
  if (rpc.request->has_filter()) {
    options.pool = &Core::filters;
    options.check = [request = rpc.request](const NamedCollection& named) {
      return CheckFilter(named, request->filter());
    };
  }
  return UnaryCall::Run(options, [rpc](Core& core, Call& call) {
    call.record.collection = rpc.request->collection();
    return CountRows(core, call, *rpc.request, rpc.response);
  });
}

ActiveCallPtr LocalService::GetLimits(Rpc<pb::GetLimitsRequest, pb::GetLimitsResponse> rpc) {
  // Answered in every phase, on this thread.
  auto ended = std::make_shared<EndedCall>(state_, rpc.context, "GetLimits");
  ToProto(state_->limits(), rpc.response);
  ended->call.Finish(absl::OkStatus());
  return ended;
}

ActiveCallPtr LocalService::Refuse(CallContext* context, const char* method,
                                   const absl::Status& status) {
  auto ended = std::make_shared<EndedCall>(state_, context, method);
  const absl::StatusOr<Core*> core = ended->call.Enter();  // its error takes precedence
  ended->call.Finish(core.ok() ? status : core.status());
  return ended;
}

}  // namespace nearfield::server

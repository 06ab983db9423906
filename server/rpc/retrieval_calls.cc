#include "server/rpc/direct_call.h"
#include "server/rpc/local_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/attributes/limits.h"
#include "server/collections/catalog.h"
#include "server/config/settings.h"
#include "server/convert/ingest.h"
#include "server/convert/retrieval.h"
#include "server/convert/returned_attributes.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/kept_epoch.h"
#include "server/rpc/search_call.h"
#include "server/rpc/streams.h"
#include "server/rpc/unary_call.h"

namespace nearfield::server {
namespace {

void StartSingleSearch(const pb::SearchRequest& request, pb::SearchResponse* response, Call* call) {
  call->record.collection = request.collection();
  const absl::StatusOr<Core*> core = call->Enter();
  if (!core.ok()) return call->Finish(core.status());
  StartSearch(*core, *call, request, {.response = response, .holds = &call->holds},
              [call](const absl::Status& status, const SearchFacts& facts) {
                Note(facts, &call->record);
                call->Finish(status);
              });
}

absl::StatusOr<std::shared_ptr<NamedCollection>> Find(const Core& core, const Call& call,
                                                      const std::string& name) {
  if (call.named != nullptr) return call.named;
  return call.Find(core, name);
}

absl::StatusOr<IdColumn> IdsOf(const pb::FetchRequest& request, const NamedCollection& named,
                               const RequestLimits& limits) {
  return IdsFromProto("ids", request.ids(), named.collection->spec().id_type,
                      {.min = 1, .max = limits.fetch_ids_max});
}

absl::Status FetchRows(Core& core, Call& call, const pb::FetchRequest& request,
                       pb::FetchResponse* response) {
  const RequestLimits& limits = call.state()->limits();
  ABSL_ASSIGN_OR_RETURN(const auto named, Find(core, call, request.collection()));
  const CollectionSpec& spec = named->collection->spec();
  ABSL_ASSIGN_OR_RETURN(const IdColumn ids, IdsOf(request, *named, limits));
  const auto schema = named->attributes->SchemaAt(EpochsOf(request).at_epoch);
  ABSL_ASSIGN_OR_RETURN(const WantedAttributes wanted,
                        WantedFromProto(request.attributes(), *schema));
  RowParts parts = PartsFromProto(request, limits);
  parts.ordinals = !wanted.empty();
  ABSL_ASSIGN_OR_RETURN(
      call.holds.reply,
      call.state()->ledger().replies.Reserve(
          call.caller(),
          ReplyBytesMax(spec, parts, ids, AttributeBytesLimit(*schema, wanted), limits)));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const PinnedEpoch> at,
                        FindWanted({core, call.caller(), *named}, EpochsOf(request)));
  const absl::StatusOr<FetchResult> fetched = named->collection->Fetch(at.get(), ids, parts);
  ABSL_RETURN_IF_ERROR(WithAdvice(fetched.status(), kFetchAdvice));
  const FetchResult& found = *fetched;
  ABSL_RETURN_IF_ERROR(CheckReplyBytes(ReplyBytesMin(found), limits, kFetchAdvice));
  if (!wanted.empty()) {
    ABSL_ASSIGN_OR_RETURN(const RowReader rows,
                          named->attributes->FindRows(*at, found.ordinals, wanted));
    const MessageBytes columns = ColumnBytes(rows, wanted);
    ABSL_RETURN_IF_ERROR(CheckReplyBytes(columns.wire, limits, kFetchAdvice));
    ABSL_RETURN_IF_ERROR(call.holds.reply.Grow(
        std::min(limits.response_bytes_max, ReplyBytesMin(found) + columns.held)));
    ToProto(rows, rows.rows_count(), wanted, response->mutable_attributes());
  }
  ToProto(spec, parts, ids, found, response);
  response->set_incarnation(named->incarnation);
  const auto bytes = static_cast<int64_t>(response->ByteSizeLong());
  call.holds.reply.Resize(bytes);
  return CheckReplyBytes(bytes, limits, kFetchAdvice);
}

absl::Status CountRows(Core& core, Call& call, const pb::CountRequest& request,
                       pb::CountResponse* response) {
  ABSL_ASSIGN_OR_RETURN(const auto named, Find(core, call, request.collection()));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const PinnedEpoch> at,
                        FindWanted({core, call.caller(), *named}, EpochsOf(request)));
  int64_t rows_count = at->rows_count();
  if (const GivenFilter filter = FilterOf(request); filter.given()) {
    ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, ChooseRows(*named, filter, at, call));
    ABSL_ASSIGN_OR_RETURN(rows_count, named->collection->CountRows(at.get(), *chosen.rows));
  }
  response->set_epoch(at->epoch());
  response->set_incarnation(named->incarnation);
  response->set_rows_count(static_cast<uint64_t>(rows_count));
  return absl::OkStatus();
}

absl::Status KeepWantedEpoch(Core& core, Call& call, const pb::PinEpochRequest& request,
                             pb::PinEpochResponse* response) {
  ABSL_ASSIGN_OR_RETURN(const auto named, Find(core, call, request.collection()));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const PinnedEpoch> at,
                        FindWanted({core, call.caller(), *named}, EpochsOf(request)));
  ABSL_RETURN_IF_ERROR(core.pinned_snapshots.Keep(call.caller(), named->collection, at));
  response->set_epoch(at->epoch());
  response->set_incarnation(named->incarnation);
  response->set_rows_count(static_cast<uint64_t>(at->rows_count()));
  response->set_kept_ms(static_cast<uint64_t>(call.state()->settings().cursor_ms.value()));
  return absl::OkStatus();
}

void ReportLimits(const Settings& settings, pb::GetLimitsResponse* response) {
  response->set_dim_max(static_cast<uint32_t>(kDimMax));
  response->set_k_max(static_cast<uint32_t>(settings.k_max.value()));
  response->set_queries_max(static_cast<uint32_t>(settings.queries_max.value()));
  response->set_fetch_ids_max(static_cast<uint32_t>(settings.fetch_ids_max.value()));
  response->set_request_bytes_max(static_cast<uint64_t>(settings.request_bytes_max.value()));
  response->set_response_bytes_max(static_cast<uint64_t>(settings.response_bytes_max.value()));
  response->set_id_bytes_max(static_cast<uint32_t>(kIdBytesMax));
  response->set_payload_bytes_max(static_cast<uint32_t>(settings.payload_bytes_max.value()));
  response->set_collection_name_bytes_max(static_cast<uint32_t>(kCollectionNameBytesMax));
  response->set_upload_block_bytes_max(static_cast<uint64_t>(settings.upload_block_bytes_max()));
  response->set_rows_per_collection_max(static_cast<uint64_t>(kRowsMax));
  response->set_collections_max(static_cast<uint32_t>(settings.collections_max.value()));
  response->set_queue_requests_max(static_cast<uint32_t>(settings.queue_requests_max.value()));
  response->set_cursor_ms(static_cast<uint64_t>(settings.cursor_ms.value()));
  response->set_page_rows_max(static_cast<uint64_t>(settings.page_rows_max.value()));
  response->set_epochs_kept_max(static_cast<uint32_t>(settings.epochs_kept_max.value()));
  response->set_epochs_kept_percent(static_cast<uint32_t>(settings.epochs_kept_percent.value()));
  response->set_uploads_max(static_cast<uint32_t>(settings.uploads_max.value()));
  response->set_verify_max(static_cast<uint32_t>(settings.verify_max.value()));
  response->set_upload_tokens_max(static_cast<uint32_t>(settings.upload_tokens_max.value()));
  response->set_upload_token_s(static_cast<uint64_t>(settings.upload_token_s.value()));
  response->set_upload_tokens_committed_max(
      static_cast<uint64_t>(settings.upload_tokens_committed_max.value()));
  response->set_upload_idle_ms(static_cast<uint64_t>(settings.upload_idle_ms.value()));
  response->set_caller_share_percent(static_cast<uint32_t>(settings.caller_share_percent.value()));
  response->set_search_ms_max(static_cast<uint64_t>(settings.search_ms_max.value()));
  response->set_reply_unread_ms(static_cast<uint64_t>(settings.reply_unread_ms.value()));
  response->set_requests_bytes_max(static_cast<uint64_t>(settings.requests_bytes_max.value()));
  response->set_replies_bytes_max(static_cast<uint64_t>(settings.replies_bytes_max.value()));
  response->set_streams_max(static_cast<uint32_t>(settings.streams_max.value()));
  response->set_snapshots_max(static_cast<uint32_t>(settings.snapshots_max.value()));
  response->set_aliases_max(static_cast<uint32_t>(kAliasesMax));
  response->set_upload_token_bytes_max(static_cast<uint32_t>(kUploadTokenBytesMax));
  constexpr AttributeLimits kAttributes;
  response->set_attributes_max(static_cast<uint32_t>(kAttributes.attributes_max));
  response->set_attribute_keyword_bytes_max(static_cast<uint32_t>(kAttributes.keyword_bytes_max));
  response->set_attribute_list_values_max(static_cast<uint32_t>(kAttributes.list_values_max));
  response->set_attribute_row_bytes_max(static_cast<uint32_t>(kAttributes.row_bytes_max));
  response->set_filter_levels_max(static_cast<uint32_t>(kAttributes.filter_depth_max));
  response->set_filter_conditions_max(static_cast<uint32_t>(kAttributes.filter_conditions_max));
  response->set_filter_values_max(static_cast<uint32_t>(kAttributes.filter_values_max));
  response->set_filter_bytes_max(static_cast<uint32_t>(kAttributes.filter_bytes_max));
  response->set_facet_values_max(static_cast<uint32_t>(kAttributes.facet_values_max));
}

}  // namespace

ActiveCallPtr LocalService::Search(Rpc<pb::SearchRequest, pb::SearchResponse> rpc) {
  auto search = std::make_shared<DirectCall>(state_, rpc.context, "Search");
  StartSingleSearch(*rpc.request, rpc.response, &search->call);
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
  options.check = [this, request = rpc.request](const NamedCollection& named,
                                                const Call& /*call*/) {
    ABSL_RETURN_IF_ERROR(IdsOf(*request, named, state_->limits()).status());
    const auto schema = named.attributes->SchemaAt(EpochsOf(*request).at_epoch);
    return WantedFromProto(request->attributes(), *schema).status();
  };
  return UnaryCall::Run(options, [rpc](Core& core, Call& call) {
    call.record.collection = rpc.request->collection();
    absl::Status status = FetchRows(core, call, *rpc.request, rpc.response);
    if (!status.ok()) {
      rpc.response->Clear();
      call.holds.reply.Resize(0);
    }
    call.record.rows = rpc.response->ids().numbers_size() + rpc.response->ids().texts_size();
    return status;
  });
}

ActiveCallPtr LocalService::Scan(ScanReplies* context,
                                 std::shared_ptr<const pb::ScanRequest> request) {
  return StartScan(state_, context, std::move(request));
}

ActiveCallPtr LocalService::Count(Rpc<pb::CountRequest, pb::CountResponse> rpc) {
  UnaryCall::Options options = ReadOf(rpc, "Count");
  if (FilterOf(*rpc.request).given()) {
    options.pool = &Core::filters;
    options.check = [request = rpc.request](const NamedCollection& named, const Call& call) {
      return CheckFilter(named, EpochsOf(*request).at_epoch, FilterOf(*request), call);
    };
  }
  return UnaryCall::Run(options, [rpc](Core& core, Call& call) {
    call.record.collection = rpc.request->collection();
    return CountRows(core, call, *rpc.request, rpc.response);
  });
}

ActiveCallPtr LocalService::PinEpoch(Rpc<pb::PinEpochRequest, pb::PinEpochResponse> rpc) {
  return UnaryCall::Run(ReadOf(rpc, "PinEpoch"), [rpc](Core& core, Call& call) {
    call.record.collection = rpc.request->collection();
    return KeepWantedEpoch(core, call, *rpc.request, rpc.response);
  });
}

ActiveCallPtr LocalService::GetLimits(Rpc<pb::GetLimitsRequest, pb::GetLimitsResponse> rpc) {
  // Answered in every phase, on this thread.
  auto ended = std::make_shared<DirectCall>(state_, rpc.context, "GetLimits");
  ReportLimits(state_->settings(), rpc.response);
  ended->call.Finish(absl::OkStatus());
  return ended;
}

ActiveCallPtr LocalService::Refuse(CallContext* context, const char* method,
                                   const absl::Status& status) {
  auto ended = std::make_shared<DirectCall>(state_, context, method);
  const absl::StatusOr<Core*> core = ended->call.Enter();  // its error takes precedence
  ended->call.Finish(core.ok() ? status : core.status());
  return ended;
}

}  // namespace nearfield::server

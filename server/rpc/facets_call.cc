// Facets: the rows of each value of some attributes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "server/attributes/limits.h"
#include "server/attributes/value_counts.h"
#include "server/convert/filter.h"
#include "server/convert/retrieval.h"
#include "server/convert/returned_attributes.h"
#include "server/rpc/await_epoch.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/kept_epoch.h"
#include "server/rpc/local_service.h"
#include "server/rpc/reaching_rows.h"
#include "server/rpc/unary_call.h"

namespace nearfield::server {
namespace {

constexpr uint32_t kDefaultValues = 100;
constexpr char kFacetsAdvice[] = "ask for fewer attributes or a smaller values_max";

// The arguments of a call, checked.
struct FacetsTask {
  WantedAttributes wanted;
  int64_t values_max = 0;
  std::optional<Filter> filter;
  std::optional<TermList> terms;
  SearchRequest search;  // without a query if the request has none
  SearchPriority priority = SearchPriority::kInteractive;
};

absl::Status ReadQuery(const pb::FacetsRequest& request, const NamedCollection& named,
                       FacetsTask* task) {
  ABSL_ASSIGN_OR_RETURN(task->priority, PriorityFromProto(request.priority()));
  if (request.has_query() != request.has_score_threshold()) {
    return request.has_query()
               ? ArgumentError("score_threshold", "absent, a query needs one", "absent")
               : ArgumentError("query", "absent, a score_threshold needs one", "absent");
  }
  if (!request.has_query()) return absl::OkStatus();
  const CollectionSpec& spec = named.collection->spec();
  ABSL_RETURN_IF_ERROR(AppendQuery("query", request.query(), spec, &task->search));
  ABSL_ASSIGN_OR_RETURN(task->search.queries.front().score_threshold,
                        ScoreThreshold(true, request.score_threshold()));
  SetVectorSpans(spec, &task->search);
  task->search.collection = named.collection;
  return absl::OkStatus();
}

// Checks everything that does not need the rows. `epoch`: that of the rows; absent: now. Adds the
// memory of the filter and the terms to `hold`.
absl::StatusOr<FacetsTask> ReadRequest(const pb::FacetsRequest& request,
                                       const NamedCollection& named, std::optional<uint64_t> epoch,
                                       ByteAccount::Hold* hold) {
  constexpr AttributeLimits kLimits;
  FacetsTask task;
  const auto schema = named.attributes->SchemaAt(epoch);
  ABSL_ASSIGN_OR_RETURN(task.wanted, WantedFromProto(request.attributes(), *schema));
  if (request.attributes().empty()) return MustBe("attributes", "none", "at least one");
  task.values_max = request.has_values_max() ? request.values_max() : kDefaultValues;
  ABSL_RETURN_IF_ERROR(CheckRange("values_max", task.values_max, 1, kLimits.facet_values_max));
  ABSL_RETURN_IF_ERROR(ReadQuery(request, named, &task));
  if (request.has_terms()) {
    if (!request.has_query()) return ArgumentError("query", "absent, terms need one", "absent");
    ABSL_ASSIGN_OR_RETURN(task.terms, HeldTerms(named, *schema, request.terms(), hold));
  }
  const GivenFilter given = FilterOf(request);
  if (!given.given()) return task;
  ABSL_ASSIGN_OR_RETURN(task.filter, HeldFilter(named, *schema, given, hold));
  return task;
}

// One call. The steps run one after the other, each on a worker.
class FacetsWork {
 public:
  explicit FacetsWork(Rpc<pb::FacetsRequest, pb::FacetsResponse> rpc)
      : request_(std::move(rpc.request)), response_(rpc.response) {}

  absl::Status Check(const NamedCollection& named, const Call& call) const {
    ABSL_ASSIGN_OR_RETURN(ByteAccount::Hold hold, HoldOf(call, 0));
    return ReadRequest(*request_, named, EpochsOf(*request_).at_epoch, &hold).status();
  }

  // Pins the epoch, chooses the rows that pass the filter, and binds the terms.
  absl::Status Choose(Core& core, Call& call) {
    call.record.collection = request_->collection();
    named_ = call.named;
    if (named_ == nullptr) {
      ABSL_ASSIGN_OR_RETURN(named_, call.Find(core, request_->collection()));
    }
    ABSL_ASSIGN_OR_RETURN(hold_, HoldOf(call, 0));
    ABSL_ASSIGN_OR_RETURN(at_, FindWanted({core, call.caller(), *named_}, EpochsOf(*request_)));
    ABSL_ASSIGN_OR_RETURN(task_, ReadRequest(*request_, *named_, at_->epoch(), &hold_));
    if (task_.filter.has_value()) {
      ABSL_ASSIGN_OR_RETURN(chosen_, ChooseRows(*named_, *task_.filter, at_, call));
    }
    if (task_.search.queries.empty()) return absl::OkStatus();
    reaching_ = std::make_shared<ReachingRows>();
    reaching_->rounds = {.core = &core,
                         .caller = call.caller(),
                         .priority = task_.priority,
                         .deadline = AnswerBy(call, call.state()->clock().Now()),
                         .cancelled = call.cancelled()};
    reaching_->search = std::move(task_.search);
    reaching_->search.at = at_;
    reaching_->search.queries.front().filter = chosen_.rows;
    if (task_.terms.has_value()) {
      ABSL_ASSIGN_OR_RETURN(reaching_->search.queries.front().terms,
                            BindTerms(*named_, *task_.terms, at_, call, &hold_));
    }
    reaching_->search.few_rows = chosen_.rows != nullptr && IsFewRows(chosen_);
    reaching_->limits = call.state()->limits();
    reaching_->hold = &hold_;
    reaching_->record = &call.record;
    call.record.queries = 1;
    return absl::OkStatus();
  }

  // Finds the rows of the query, if there is one, and then posts the job.
  absl::Status Post(Core& core, std::function<void()> job, std::function<void()> after) {
    if (reaching_ == nullptr) return core.filters.Post(std::move(job), std::move(after));
    FindReachingRows(reaching_, [this, &core, job = std::move(job),
                                 after = std::move(after)](absl::Status status) {
      searched_ = std::move(status);
      if (core.filters.Post(job, after).ok()) return;
      // The pool is full, but the search is done: this thread counts.
      job();
      after();
    });
    return absl::OkStatus();
  }

  absl::Status Count(Call& call) {
    ABSL_RETURN_IF_ERROR(searched_);
    if (call.state()->distrusted()) return ServerState::DistrustStatus();
    ABSL_RETURN_IF_ERROR(ReserveReply(call));
    absl::StatusOr<RowFilter> bits = RowsToCount(call);
    ABSL_RETURN_IF_ERROR(bits.status());
    const CountedRows rows(*std::move(bits));
    response_->set_epoch(at_->epoch());
    response_->set_incarnation(named_->incarnation);
    response_->set_rows_count(static_cast<uint64_t>(rows.rows().size()));
    absl::Status status = CountAll(rows, call);
    if (!status.ok()) response_->Clear();
    const auto bytes = static_cast<int64_t>(response_->ByteSizeLong());
    call.record.rows = static_cast<int64_t>(response_->rows_count());
    call.holds.reply.Resize(bytes);
    return status;
  }

 private:
  static absl::StatusOr<ByteAccount::Hold> HoldOf(const Call& call, int64_t bytes) {
    return call.state()->ledger().requests.Reserve(call.caller(), bytes);
  }

  absl::Status ReserveReply(Call& call) {
    const auto schema = named_->attributes->SchemaAt(at_->epoch());
    int64_t bytes = 0;
    for (const int32_t attribute : task_.wanted) {
      bytes += FacetBytesMax(schema->at(attribute), task_.values_max);
    }
    bytes = std::min(bytes, call.state()->limits().response_bytes_max);
    ABSL_ASSIGN_OR_RETURN(call.holds.reply,
                          call.state()->ledger().replies.Reserve(call.caller(), bytes));
    return absl::OkStatus();
  }

  // Returns the rows of the query, or the live rows that pass the filter.
  absl::StatusOr<RowFilter> RowsToCount(const Call& call) {
    const int64_t bits_bytes = 2 * (at_->rows_count() + 7) / 8;  // CountedRows holds them twice
    ABSL_RETURN_IF_ERROR(hold_.Grow(hold_.bytes() + bits_bytes));
    if (reaching_ != nullptr) return std::move(reaching_->found);
    ABSL_RETURN_IF_ERROR(call.DeadStatus());
    ABSL_ASSIGN_OR_RETURN(RowFilter live, named_->collection->LiveRows(at_.get()));
    if (chosen_.rows == nullptr) return live;
    const auto& chosen = chosen_.rows->chosen;
    live.chosen.resize(std::min(live.chosen.size(), chosen.size()));
    for (size_t word = 0; word < live.chosen.size(); ++word) live.chosen[word] &= chosen[word];
    return live;
  }

  absl::Status CountAll(const CountedRows& rows, const Call& call) {
    const RequestLimits& limits = call.state()->limits();
    const std::shared_ptr<const AttributeSnapshot> columns = named_->attributes->ColumnsOf(*at_);
    for (const int32_t attribute : task_.wanted) {
      const absl::StatusOr<ValueCounts> counts =
          CountValues(*columns, attribute, rows,
                      {.values_max = task_.values_max, .cancelled = [&] { return call.Dead(); }});
      if (absl::IsCancelled(counts.status())) ABSL_RETURN_IF_ERROR(call.DeadStatus());
      ABSL_RETURN_IF_ERROR(counts.status());
      const auto bytes = static_cast<int64_t>(response_->ByteSizeLong());
      ABSL_RETURN_IF_ERROR(CheckReplyBytes(bytes + counts->values.bytes(), limits, kFacetsAdvice));
      ToProto(columns->schema->at(attribute).name, *counts, response_->add_facets());
    }
    return CheckReplyBytes(static_cast<int64_t>(response_->ByteSizeLong()), limits, kFacetsAdvice);
  }

  const std::shared_ptr<const pb::FacetsRequest> request_;
  pb::FacetsResponse* const response_;
  std::shared_ptr<NamedCollection> named_;
  FacetsTask task_;
  ByteAccount::Hold hold_;  // for the filter, the terms, the search and the rows
  std::shared_ptr<const PinnedEpoch> at_;
  ChosenRows chosen_;                       // by the filter; no rows: there is no filter
  std::shared_ptr<ReachingRows> reaching_;  // null: the request has no query
  absl::Status searched_;
};

}  // namespace

ActiveCallPtr LocalService::Facets(Rpc<pb::FacetsRequest, pb::FacetsResponse> rpc) {
  UnaryCall::Options options = ReadOf(rpc, "Facets");
  const auto facets = std::make_shared<FacetsWork>(std::move(rpc));
  options.check = [facets](const NamedCollection& named, const Call& call) {
    return facets->Check(named, call);
  };
  options.choose = [facets](Core& core, Call& call) { return facets->Choose(core, call); };
  options.post = [facets](Core& core, std::function<void()> job, std::function<void()> after) {
    return facets->Post(core, std::move(job), std::move(after));
  };
  return UnaryCall::Run(options,
                        [facets](Core& /*core*/, Call& call) { return facets->Count(call); });
}

}  // namespace nearfield::server

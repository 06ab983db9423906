#include "server/rpc/search_call.h"

#include <future>
#include <optional>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/cursor.h"
#include "server/convert/filter.h"
#include "server/convert/groups.h"
#include "server/convert/retrieval.h"
#include "server/convert/returned_attributes.h"
#include "server/rpc/await_epoch.h"
#include "server/rpc/called_search.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/group_claims.h"
#include "server/rpc/kept_epoch.h"

namespace nearfield::server {
namespace {

// Makes the search begin at its page. Errors: InvalidArgument.
absl::Status SetPage(const pb::SearchRequest& request, const RequestLimits& limits,
                     CalledSearch* pending) {
  const bool streamed = pending->output.epoch_hold != nullptr;
  SearchOrder order = {.group_by = request.group_by()};
  if (pending->filter.has_value()) order.filter = pending->filter->canonical();
  if (pending->terms.has_value()) order.terms = pending->terms->canonical();
  return pending->page.Begin(request, pending->named->incarnation, order,
                             streamed ? std::nullopt : std::optional<int64_t>(limits.page_rows_max),
                             pending->output.page_cache, &pending->ticket.request.queries);
}

// Returns the attributes that the collection declares at the epoch that the search reads. SetPage
// refuses a bad cursor.
std::shared_ptr<const AttributeSchema> SchemaOf(const NamedCollection& named,
                                                const pb::SearchRequest& request) {
  if (!request.has_cursor()) return named.attributes->SchemaAt(EpochsOf(request).at_epoch);
  const absl::StatusOr<Cursor> cursor = DecodeCursor(request.cursor());
  return cursor.ok() ? named.attributes->SchemaAt(cursor->epoch) : named.attributes->SchemaAt();
}

// Sets the groups that the request asks for. Their rows have a value of the attribute.
absl::Status SetGrouping(const pb::SearchRequest& request, const AttributeSchema& schema,
                         const RequestLimits& limits, CalledSearch* pending) {
  const int32_t k = pending->ticket.request.queries.front().k;
  ABSL_ASSIGN_OR_RETURN(pending->grouping, GroupingFromProto(request, schema, k, limits));
  if (!pending->grouping.has_value()) return absl::OkStatus();
  FilterTree tree = Leaf(
      {.kind = ConditionKind::kExists, .children = {}, .attribute = pending->grouping->attribute});
  if (pending->filter.has_value()) {
    tree = Join(ConditionKind::kAnd, {std::move(tree), pending->filter->tree()});
  }
  pending->filter = Filter(std::move(tree), schema);
  pending->group_bytes =
      AttributeBytesExpected(schema, {*schema.Find(pending->grouping->attribute)});
  return absl::OkStatus();
}

// Makes all checks that do not need the state of the collection.
absl::Status Prepare(const Call& call, const pb::SearchRequest& request, CalledSearch* pending) {
  const RequestLimits& limits = call.state()->limits();
  ABSL_ASSIGN_OR_RETURN(pending->named, call.Find(*pending->core, request.collection()));
  const NamedCollection& named = *pending->named;
  if (request.has_incarnation()) {
    ABSL_RETURN_IF_ERROR(CheckIncarnation(named, request.incarnation()));
  }
  SearchTicket& ticket = pending->ticket;
  ABSL_ASSIGN_OR_RETURN(ticket.request, FromProto(request, named.collection, limits));
  ABSL_ASSIGN_OR_RETURN(pending->output.holds->request, call.state()->ledger().requests.Reserve(
                                                            call.caller(), ticket.request.bytes()));
  ABSL_ASSIGN_OR_RETURN(ticket.priority, PriorityFromProto(request.priority()));
  const auto schema = SchemaOf(named, request);
  const GivenFilter filter = FilterOf(request);
  if (filter.given()) {
    ABSL_ASSIGN_OR_RETURN(pending->filter,
                          HeldFilter(named, *schema, filter, &pending->output.holds->request));
  }
  ABSL_RETURN_IF_ERROR(SetGrouping(request, *schema, limits, pending));
  if (request.has_terms()) {
    ABSL_ASSIGN_OR_RETURN(pending->terms, HeldTerms(named, *schema, request.terms(),
                                                    &pending->output.holds->request));
  }
  const WantedEpochs epochs = EpochsOf(request);
  ABSL_RETURN_IF_ERROR(CheckEpochs(epochs));
  pending->at_epoch = epochs.at_epoch;
  ABSL_RETURN_IF_ERROR(SetPage(request, limits, pending));
  ticket.caller = call.caller();
  ticket.deadline = AnswerBy(call, pending->begin);
  ticket.cancelled = call.cancelled();
  ticket.lent_thread = call.lent_thread();
  ticket.interrupted = call.interrupted();
  ABSL_RETURN_IF_ERROR(pending->attributes.Begin(request, named.attributes.get(), *schema,
                                                 &call.state()->clock(), &ticket));
  pending->parts = ticket.request.parts;
  pending->k = ticket.request.queries.front().k;
  pending->facts.queries = static_cast<int64_t>(ticket.request.queries.size());
  pending->facts.k = pending->k;
  pending->caller = call.caller();
  pending->origin = {.collection_name = request.collection(), .request_id = call.record.request_id};
  // SearchAll reads the place of its next page from the results.
  const bool streamed = pending->output.epoch_hold != nullptr;
  pending->packed = !streamed && IsPacked(request, named.collection->spec());
  pending->with_digest = request.with_digest();
  pending->verify = request.verify();
  if (!pending->verify) pending->audit = AuditDraw(&pending->core->audit->auditor);
  if (pending->verify || pending->audit.sampled()) {
    pending->origin.filter = ToSent(filter);
    pending->origin.terms = request.terms().SerializeAsString();
  }
  return absl::OkStatus();
}

// Sets the epoch of the cursor, or the one that the request names.
absl::Status SetEpoch(CalledSearch* pending) {
  const bool of_cursor = pending->page.epoch().has_value();
  const std::optional<uint64_t> epoch = of_cursor ? pending->page.epoch() : pending->at_epoch;
  if (!epoch.has_value()) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(pending->ticket.request.at,
                        FindKept({*pending->core, pending->caller, *pending->named},
                                 of_cursor ? "cursor" : "at_epoch", *epoch));
  return absl::OkStatus();
}

// Sets the rows that may be in the answer.
void SetRows(const ChosenRows& chosen, CalledSearch* pending) {
  SearchRequest& search = pending->ticket.request;
  search.at = chosen.at;
  for (Query& query : search.queries) query.filter = chosen.rows;
  search.few_rows = IsFewRows(chosen);
}

void SetTerms(const std::shared_ptr<const RowTerms>& terms, CalledSearch* pending) {
  for (Query& query : pending->ticket.request.queries) query.terms = terms;
}

// Sets the rows of the filter and the terms, if all that they read is cached; else returns false.
bool SetKept(CalledSearch* pending) {
  const NamedCollection& named = *pending->named;
  std::shared_ptr<const PinnedEpoch>& at = pending->ticket.request.at;
  if (pending->filter.has_value()) {
    const auto kept = named.attributes->FindKept(*named.collection, *pending->filter, at);
    if (!kept.has_value()) return false;
    SetRows(*kept, pending);
  }
  if (!pending->terms.has_value()) return true;
  // Pin the state before the numbers are read: they then have every row of it.
  if (at == nullptr) at = named.collection->PinEpoch();
  const auto terms = named.attributes->FindKept(*pending->terms, *at);
  if (terms != nullptr) SetTerms(terms, pending);
  return terms != nullptr;
}

// Evaluates the filter and the terms, on a worker. Takes up to seconds.
absl::Status EvaluateRows(CalledSearch* pending) {
  ABSL_RETURN_IF_ERROR(CheckAlive(pending->ticket, pending->state->clock().Now()));
  const NamedCollection& named = *pending->named;
  const auto nobody_waits = [pending] {
    return !CheckAlive(pending->ticket, pending->state->clock().Now()).ok();
  };
  const auto evaluate = [&]() -> absl::Status {
    std::shared_ptr<const PinnedEpoch>& at = pending->ticket.request.at;
    if (pending->filter.has_value()) {
      ABSL_ASSIGN_OR_RETURN(
          const ChosenRows chosen,
          named.attributes->Choose(*named.collection, *pending->filter, at, nobody_waits));
      SetRows(chosen, pending);
    }
    if (!pending->terms.has_value()) return absl::OkStatus();
    if (at == nullptr) at = named.collection->PinEpoch();
    ABSL_ASSIGN_OR_RETURN(
        const std::shared_ptr<const RowTerms> terms,
        named.attributes->Bind(*named.collection, *pending->terms, at, nobody_waits));
    SetTerms(terms, pending);
    return absl::OkStatus();
  };
  absl::Status status = evaluate();
  if (absl::IsCancelled(status)) {
    ABSL_RETURN_IF_ERROR(CheckAlive(pending->ticket, pending->state->clock().Now()));
  }
  return status;
}

// Refuses the search before device work if its reply is certainly too large to be sent.
absl::Status CheckReplyFits(CalledSearch* pending) {
  SearchRequest& search = pending->ticket.request;
  const RequestLimits& limits = pending->state->limits();
  search.reply_bytes_min = ReplyBytesMin(search, INT64_MAX);
  if (search.reply_bytes_min <= limits.response_bytes_max) return absl::OkStatus();
  const auto at = search.at != nullptr ? search.at : search.collection->PinEpoch();
  search.reply_bytes_min = ReplyBytesMin(search, at->rows_count());
  return CheckReplyBytes(search.reply_bytes_min, limits, kSearchAdvice);
}

// Returns the expected bytes of the reply.
int64_t ReplyBytes(const CalledSearch& pending) {
  const SearchRequest& search = pending.ticket.request;
  const RequestLimits& limits = pending.state->limits();
  if (!pending.grouping.has_value()) return ReplyBytesExpected(search, limits);
  SearchRequest rows = search.Copy();
  for (Query& query : rows.queries) query.k *= pending.grouping->rows_max;
  const int64_t groups_max = int64_t{pending.k} * static_cast<int64_t>(rows.queries.size());
  return ReplyBytesExpected(rows, limits) + groups_max * pending.group_bytes;
}

// Reserves the memory that the search holds until its reply is sent: its queries, its filter, its
// terms and the rows of their filters, and its reply.
absl::Status ReserveMemory(CalledSearch* pending) {
  SearchTicket& ticket = pending->ticket;
  MemoryHolds* const holds = pending->output.holds;
  const int64_t filter_bytes = pending->filter.has_value() ? pending->filter->bytes() : 0;
  const int64_t terms_bytes = pending->terms.has_value() ? pending->terms->bytes() : 0;
  ABSL_RETURN_IF_ERROR(holds->request.Grow(ticket.request.bytes() + filter_bytes + terms_bytes));
  ABSL_ASSIGN_OR_RETURN(holds->reply, pending->state->ledger().replies.Reserve(
                                          pending->caller, ReplyBytes(*pending)));
  ticket.reply = &holds->reply;
  return absl::OkStatus();
}

GroupClaims ClaimsOf(const CalledSearch& pending) {
  return GroupClaims({.named = pending.named,
                      .grouping = *pending.grouping,
                      .filter = pending.filter->tree(),
                      .sent = pending.origin.filter,
                      .k = pending.k});
}

// As AnswerSearch, for a search for groups.
void OnGroups(const std::shared_ptr<CalledSearch>& pending, absl::StatusOr<GroupedReply> answer) {
  if (!answer.ok()) return AnswerSearch(pending, answer.status());
  if (pending->audit.sampled()) pending->audit.Submit(*answer, ClaimsOf(*pending));
  pending->groups = std::move(answer->groups);
  AnswerSearch(pending, std::move(answer->reply));
}

void SearchGroups(CalledSearch* pending, std::function<void(absl::StatusOr<GroupedReply>)> done) {
  SearchTicket& ticket = pending->ticket;
  StartGroupSearch({.rounds = {.core = pending->core,
                               .caller = pending->caller,
                               .priority = ticket.priority,
                               .deadline = ticket.deadline,
                               .cancelled = ticket.cancelled},
                    .search = std::move(ticket.request),
                    .grouping = *pending->grouping,
                    .named = pending->named.get(),
                    .limits = pending->state->limits(),
                    .hold = &pending->output.holds->request},
                   std::move(done));
}

// Searches like any caller, and waits.
absl::StatusOr<GroupedReply> SearchAndAwait(CalledSearch* pending) {
  if (!pending->grouping.has_value()) {
    ABSL_ASSIGN_OR_RETURN(SearchReply reply,
                          SearchAndWait(&pending->core->queue, std::move(pending->ticket)));
    return GroupedReply{.reply = std::move(reply), .groups = {}};
  }
  auto answer = std::make_shared<std::promise<absl::StatusOr<GroupedReply>>>();
  SearchGroups(pending, [answer](absl::StatusOr<GroupedReply> reply) {
    answer->set_value(std::move(reply));
  });
  return answer->get_future().get();
}

// Searches, and checks the answers with the oracle.
absl::StatusOr<GroupedReply> SearchAndCheck(CalledSearch* pending) {
  Core* const core = pending->core;
  const Clock& clock = pending->state->clock();
  const CancelFlag cancelled = pending->ticket.cancelled;
  const std::optional<TimePoint> deadline = pending->ticket.deadline;
  const ReplyCheck check(pending->ticket.request, pending->origin);
  ABSL_ASSIGN_OR_RETURN(GroupedReply answer, SearchAndAwait(pending));
  const auto late = [&] { return deadline.has_value() && clock.Now() >= *deadline; };
  const auto unwanted = [&] { return cancelled->load() || late(); };
  const absl::Status checked =
      pending->grouping.has_value()
          ? check.Run(*core->engine, &core->audit->alarm, answer, ClaimsOf(*pending), unwanted)
          : check.Run(*core->engine, &core->audit->alarm, answer.reply, unwanted);
  if (absl::IsCancelled(checked) && late()) {
    return absl::DeadlineExceededError("the deadline passed in the verification");
  }
  ABSL_RETURN_IF_ERROR(checked);
  return answer;
}

// Starts a search with `verify`. Errors: ResourceExhausted (too many verifications).
absl::Status StartChecked(const std::shared_ptr<CalledSearch>& pending) {
  return pending->core->verifications.Post(
      [pending] { pending->checked = SearchAndCheck(pending.get()); },
      [pending] {
        if (pending->grouping.has_value()) return OnGroups(pending, std::move(pending->checked));
        if (!pending->checked.ok()) return AnswerSearch(pending, pending->checked.status());
        AnswerSearch(pending, std::move(pending->checked->reply));
      });
}

absl::Status Start(const std::shared_ptr<CalledSearch>& pending) {
  if (pending->verify) return StartChecked(pending);
  SearchTicket& ticket = pending->ticket;
  pending->audit.Reserve(ticket.request, pending->origin);
  if (pending->grouping.has_value()) {
    SearchGroups(pending.get(), [pending](absl::StatusOr<GroupedReply> answer) {
      OnGroups(pending, std::move(answer));
    });
    return absl::OkStatus();
  }
  ticket.done = [pending](absl::StatusOr<SearchReply> answer) {
    AnswerSearch(pending, std::move(answer));
  };
  return pending->core->engine_thread.Push(std::move(ticket));
}

// Continues after the rows to search are known. `status`: the error if they are not.
void Enqueue(const std::shared_ptr<CalledSearch>& pending, absl::Status status) {
  if (status.ok()) status = CheckReplyFits(pending.get());
  if (status.ok()) status = ReserveMemory(pending.get());
  if (status.ok()) status = Start(pending);
  if (!status.ok()) FailSearch(pending.get(), std::move(status));
}

// Continues after the requested epoch is reached. A worker evaluates filters and terms that are not
// cached, because this thread is gRPC's, or the one that wakes all calls that wait for an epoch.
void Queue(const std::shared_ptr<CalledSearch>& pending) {
  absl::Status status = SetEpoch(pending.get());
  if (!status.ok() || SetKept(pending.get())) return Enqueue(pending, std::move(status));
  status =
      pending->core->filters.Post([pending] { pending->evaluated = EvaluateRows(pending.get()); },
                                  [pending] { Enqueue(pending, std::move(pending->evaluated)); });
  if (!status.ok()) FailSearch(pending.get(), std::move(status));
}

}  // namespace

void StartSearch(Core* core, const Call& call, const pb::SearchRequest& request,
                 const SearchOutput& output,
                 std::function<void(absl::Status, const SearchFacts&)> done) {
  auto pending = std::make_shared<CalledSearch>();
  pending->core = core;
  pending->state = call.state();
  pending->begin = call.state()->clock().Now();
  pending->output = output;
  pending->done = std::move(done);
  absl::Status prepared = Prepare(call, request, pending.get());
  if (!prepared.ok()) return pending->done(std::move(prepared), SearchFacts{});
  // The epoch of a cursor was reached already, and a larger min_epoch was refused.
  if (!request.has_min_epoch() || pending->page.epoch().has_value()) return Queue(pending);
  AwaitEpoch(core, call, pending->named, request.min_epoch(), [pending](absl::Status status) {
    if (status.ok()) return Queue(pending);
    pending->done(std::move(status), pending->facts);
  });
}

}  // namespace nearfield::server

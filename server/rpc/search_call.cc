#include "server/rpc/search_call.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/digest.h"
#include "server/convert/filter.h"
#include "server/convert/retrieval.h"
#include "server/rpc/answer_check.h"
#include "server/rpc/await_epoch.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/kept_epoch.h"
#include "server/rpc/neighbor_attributes.h"
#include "server/rpc/search_page.h"

namespace nearfield::server {
namespace {

// Larger replies of a search that is alone in its pass are made by a worker, because the engine
// thread has other passes to run.
constexpr int64_t kInlineReplyBytesMax = 64 * 1024;

// The state of a search between its request and its reply.
struct Pending {
  Core* core = nullptr;
  ServerState* state = nullptr;
  std::shared_ptr<NamedCollection> named;
  SearchTicket ticket;  // valid until it is queued
  std::optional<Filter> filter;
  absl::Status evaluated;  // result of the filter's evaluation
  SearchPage page;
  std::optional<uint64_t> at_epoch;
  int32_t k = 0;  // requested from the engine
  RowParts parts;
  NeighborAttributes attributes;
  SearchFacts facts;
  TimePoint begin;
  std::string caller;
  SearchOutput output;
  std::function<void(absl::Status, const SearchFacts&)> done;
  AnswerOrigin origin;
  bool packed = false;
  bool with_digest = false;
  bool verify = false;
  AuditDraw audit;
  absl::StatusOr<SearchReply> checked = absl::UnknownError("not run");  // with verify
};

// Makes the search begin at its page. Errors: InvalidArgument.
absl::Status SetPage(const pb::SearchRequest& request, const RequestLimits& limits,
                     Pending* pending) {
  const bool streamed = pending->output.epoch_hold != nullptr;
  return pending->page.Begin(request, pending->named->incarnation,
                             pending->filter.has_value() ? pending->filter->canonical() : "",
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

// Makes all checks that do not need the state of the collection.
absl::Status Prepare(const Call& call, const pb::SearchRequest& request, Pending* pending) {
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
  ABSL_ASSIGN_OR_RETURN(ticket.priority, PriorityFromProto(request));
  const auto schema = SchemaOf(named, request);
  const GivenFilter filter = FilterOf(request);
  if (filter.given()) {
    ABSL_ASSIGN_OR_RETURN(pending->filter,
                          HeldFilter(named, *schema, filter, &pending->output.holds->request));
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
  if (pending->verify || pending->audit.sampled()) pending->origin.filter = ToSent(filter);
  return absl::OkStatus();
}

// Sets the epoch of the cursor, or the one that the request names.
absl::Status SetEpoch(Pending* pending) {
  const bool of_cursor = pending->page.epoch().has_value();
  const std::optional<uint64_t> epoch = of_cursor ? pending->page.epoch() : pending->at_epoch;
  if (!epoch.has_value()) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(pending->ticket.request.at,
                        FindKept({*pending->core, pending->caller, *pending->named},
                                 of_cursor ? "cursor" : "at_epoch", *epoch));
  return absl::OkStatus();
}

// Sets the rows that may be in the answer.
void SetRows(const ChosenRows& chosen, Pending* pending) {
  SearchRequest& search = pending->ticket.request;
  search.at = chosen.at;
  for (Query& query : search.queries) query.filter = chosen.rows;
  search.few_rows = IsFewRows(chosen);
}

// Evaluates the filter, on a worker. Takes up to seconds.
absl::Status EvaluateFilter(Pending* pending) {
  ABSL_RETURN_IF_ERROR(CheckAlive(pending->ticket, pending->state->clock().Now()));
  const NamedCollection& named = *pending->named;
  const auto nobody_waits = [pending] {
    return !CheckAlive(pending->ticket, pending->state->clock().Now()).ok();
  };
  const absl::StatusOr<ChosenRows> chosen = named.attributes->Choose(
      *named.collection, *pending->filter, pending->ticket.request.at, nobody_waits);
  if (absl::IsCancelled(chosen.status())) {
    ABSL_RETURN_IF_ERROR(CheckAlive(pending->ticket, pending->state->clock().Now()));
  }
  ABSL_RETURN_IF_ERROR(chosen.status());
  SetRows(*chosen, pending);
  return absl::OkStatus();
}

// Refuses the search before device work if its reply is certainly too large to be sent.
absl::Status CheckReplyFits(Pending* pending) {
  SearchRequest& search = pending->ticket.request;
  const RequestLimits& limits = pending->state->limits();
  search.reply_bytes_min = ReplyBytesMin(search, INT64_MAX);
  if (search.reply_bytes_min <= limits.response_bytes_max) return absl::OkStatus();
  search.reply_bytes_min = ReplyBytesMin(search, search.collection->PinEpoch()->rows_count());
  return CheckReplyBytes(search.reply_bytes_min, limits, kSearchAdvice);
}

// Reserves the memory that the search holds until its reply is sent: its queries, its filter and
// the filter's rows, and its reply.
absl::Status ReserveMemory(Pending* pending) {
  SearchTicket& ticket = pending->ticket;
  MemoryHolds* const holds = pending->output.holds;
  const int64_t filter_bytes = pending->filter.has_value() ? pending->filter->bytes() : 0;
  ABSL_RETURN_IF_ERROR(holds->request.Grow(ticket.request.bytes() + filter_bytes));
  ABSL_ASSIGN_OR_RETURN(
      holds->reply,
      pending->state->ledger().replies.Reserve(
          pending->caller, ReplyBytesExpected(ticket.request, pending->state->limits())));
  ticket.reply = &holds->reply;
  return absl::OkStatus();
}

// Keeps the epoch for the next pages. Errors: ResourceExhausted.
absl::Status KeepEpoch(const Pending& pending, const std::vector<NextPage>& next,
                       const SearchReply& reply) {
  if (absl::c_all_of(next, [](const NextPage& page) { return page.cursor.empty(); })) {
    return absl::OkStatus();
  }
  return pending.core->pinned_snapshots.Keep(pending.caller, pending.named->collection, reply.at,
                                             pending.output.epoch_hold);
}

// Returns the number of rows that pass the filter, for each query; empty without a filter.
std::vector<int64_t> MatchedRows(const Pending& pending, const SearchReply& reply) {
  std::vector<int64_t> rows;
  if (!pending.filter.has_value()) return rows;
  for (const Neighbors& neighbors : reply.result.queries) rows.push_back(neighbors.matched_rows);
  return rows;
}

void SetNextPages(std::vector<NextPage> next, pb::SearchResponse* response) {
  for (size_t i = 0; i < next.size(); ++i) {
    pb::QueryResult* const result = response->mutable_results(static_cast<int>(i));
    if (!next[i].cursor.empty()) result->set_next_cursor(std::move(next[i].cursor));
    if (next[i].cut) result->set_cut(true);
  }
}

// Releases the audit slot before calling `done`: the slot belongs to Core, which may be gone after
// the call ends.
void Fail(Pending* pending, absl::Status status) {
  pending->audit = AuditDraw();
  pending->output.holds->reply.Resize(0);
  pending->done(std::move(status), pending->facts);
}

void Reply(Pending* pending, SearchReply reply) {
  NoteReply(reply, &pending->facts);
  const int64_t bytes_read = reply.result.cost.bytes_read;
  pb::SearchResponse* const response = pending->output.response;
  absl::Status status =
      pending->attributes.Find(reply, pending->state->limits(), &pending->output.holds->reply);
  std::vector<NextPage> next = pending->page.Next(reply);
  const std::vector<int64_t> matched_rows = MatchedRows(*pending, reply);
  if (status.ok()) status = KeepEpoch(*pending, next, reply);
  if (!status.ok()) return Fail(pending, std::move(status));
  if (pending->packed) {
    ToPackedProto(std::move(reply), response);
  } else {
    ToProto(pending->named->collection->spec(), pending->parts, std::move(reply), response);
  }
  status = pending->attributes.ToProto(response);
  if (!status.ok()) return Fail(pending, std::move(status));
  SetNextPages(std::move(next), response);
  for (size_t i = 0; i < matched_rows.size(); ++i) {
    response->mutable_results(static_cast<int>(i))
        ->set_matched_rows(static_cast<uint64_t>(matched_rows[i]));
  }
  response->set_incarnation(pending->named->incarnation);
  if (pending->with_digest) response->set_result_digest(ResultDigest(*response));
  const int64_t total_us = MicrosBetween(pending->begin, pending->state->clock().Now());
  pb::SearchCost* cost = response->mutable_cost();
  cost->set_total_us(static_cast<uint64_t>(total_us));
  cost->set_read_ns_min(ReadNsMin(bytes_read, pending->core->read_bytes_per_second));
  const auto bytes = static_cast<int64_t>(response->ByteSizeLong());
  status = CheckReplyBytes(bytes, pending->state->limits(), kSearchAdvice);
  if (!status.ok()) response->Clear();
  pending->output.holds->reply.Resize(status.ok() ? bytes : 0);
  pending->done(std::move(status), pending->facts);
}

// Runs on the thread that answers the search: for a shared pass that is a worker already. Sends the
// answer immediately, unless it is a large one that nothing else shares the pass with.
void OnAnswer(const std::shared_ptr<Pending>& pending, absl::StatusOr<SearchReply> answer) {
  if (answer.ok() && pending->state->distrusted()) answer = ServerState::DistrustStatus();
  if (!answer.ok()) return Fail(pending.get(), WithAdvice(answer.status(), kSearchAdvice));
  pending->audit.Submit(*answer);
  const bool shared =
      answer->timing.batch_size > static_cast<int32_t>(answer->result.queries.size());
  const int64_t bytes = NativeBytes(*answer) + pending->attributes.BytesExpected(*answer);
  pending->output.holds->reply.Resize(bytes);
  if (shared || bytes <= kInlineReplyBytesMax) return Reply(pending.get(), *std::move(answer));
  auto kept = std::make_shared<SearchReply>(*std::move(answer));
  const absl::Status posted =
      pending->core->replies.Post([pending, kept] { Reply(pending.get(), std::move(*kept)); });
  if (!posted.ok()) Reply(pending.get(), std::move(*kept));
}

// Searches like any caller, waits, and checks the answers with the oracle.
absl::StatusOr<SearchReply> SearchAndCheck(Pending* pending) {
  Core* const core = pending->core;
  const Clock& clock = pending->state->clock();
  const CancelFlag cancelled = pending->ticket.cancelled;
  const std::optional<TimePoint> deadline = pending->ticket.deadline;
  const ReplyCheck check(pending->ticket.request, pending->origin);
  ABSL_ASSIGN_OR_RETURN(SearchReply reply, SearchAndWait(&core->queue, std::move(pending->ticket)));
  const auto late = [&] { return deadline.has_value() && clock.Now() >= *deadline; };
  const absl::Status checked = check.Run(*core->engine, &core->audit->alarm, reply,
                                         [&] { return cancelled->load() || late(); });
  if (absl::IsCancelled(checked) && late()) {
    return absl::DeadlineExceededError("the deadline passed in the verification");
  }
  ABSL_RETURN_IF_ERROR(checked);
  return reply;
}

// Starts a search with `verify`. Errors: ResourceExhausted (too many verifications).
absl::Status StartChecked(const std::shared_ptr<Pending>& pending) {
  return pending->core->verifications.Post(
      [pending] { pending->checked = SearchAndCheck(pending.get()); },
      [pending] { OnAnswer(pending, std::move(pending->checked)); });
}

absl::Status Start(const std::shared_ptr<Pending>& pending) {
  if (pending->verify) return StartChecked(pending);
  SearchTicket& ticket = pending->ticket;
  pending->audit.Reserve(ticket.request, pending->origin);
  ticket.done = [pending](absl::StatusOr<SearchReply> answer) {
    OnAnswer(pending, std::move(answer));
  };
  return pending->core->engine_thread.Push(std::move(ticket));
}

// Continues after the rows to search are known. `status`: the error if they are not.
void Enqueue(const std::shared_ptr<Pending>& pending, absl::Status status) {
  if (status.ok()) status = CheckReplyFits(pending.get());
  if (status.ok()) status = ReserveMemory(pending.get());
  if (status.ok()) status = Start(pending);
  if (!status.ok()) Fail(pending.get(), std::move(status));
}

// Continues after the requested epoch is reached. A worker evaluates a filter that is not cached,
// because this thread is gRPC's, or the one that wakes all calls that wait for an epoch.
void Queue(const std::shared_ptr<Pending>& pending) {
  absl::Status status = SetEpoch(pending.get());
  if (!status.ok() || !pending->filter.has_value()) return Enqueue(pending, std::move(status));
  const NamedCollection& named = *pending->named;
  const std::optional<ChosenRows> kept =
      named.attributes->FindKept(*named.collection, *pending->filter, pending->ticket.request.at);
  if (kept.has_value()) {
    SetRows(*kept, pending.get());
    return Enqueue(pending, absl::OkStatus());
  }
  status =
      pending->core->filters.Post([pending] { pending->evaluated = EvaluateFilter(pending.get()); },
                                  [pending] { Enqueue(pending, std::move(pending->evaluated)); });
  if (!status.ok()) Fail(pending.get(), std::move(status));
}

}  // namespace

void StartSearch(Core* core, const Call& call, const pb::SearchRequest& request,
                 const SearchOutput& output,
                 std::function<void(absl::Status, const SearchFacts&)> done) {
  auto pending = std::make_shared<Pending>();
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

#include "server/rpc/verify_call.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/admin.h"
#include "server/convert/filter.h"
#include "server/convert/retrieval.h"
#include "server/rpc/choose_rows.h"

namespace nearfield::server {
namespace {

// Returns the ticket of a verification's search, which is queued like any other.
SearchTicket TicketOf(const Call& call, const SearchRequest& search) {
  SearchTicket ticket;
  ticket.request = search.Copy();
  ticket.request.parts.bytes_max = call.state()->limits().response_bytes_max;
  ticket.caller = call.caller();
  ticket.deadline = call.deadline();
  ticket.cancelled = call.cancelled();
  return ticket;
}

absl::Status EpochPassed(uint64_t claimed, uint64_t current) {
  return absl::FailedPreconditionError(absl::StrCat("epoch: the claim is of epoch ", claimed,
                                                    ", the collection is at epoch ", current));
}

// Raises the alarm, because the server's own answer was wrong.
void RaiseAlarm(Core& core, const Call& call, const VerifyTask& task, const Neighbors& found,
                const VerifyResult& verdict) {
  const AuditedAnswer audited = {.collection_name = call.record.collection,
                                 .collection = task.search.collection,
                                 .at = task.search.at,
                                 .query = OwnedQuery(task.search.queries.front()),
                                 .answer = WithoutParts(found),
                                 .request_id = call.record.request_id,
                                 .filter = task.filter,
                                 .terms = task.terms};
  core.audit->alarm.Raise(
      AnswerMismatch{.found_by = "verify", .audited = audited, .verdict = verdict});
}

// Returns the oracle's verdict on the answer, at the epoch that the task holds.
absl::StatusOr<VerifyResult> Check(Core& core, const Call& call, const VerifyTask& task,
                                   int64_t* oracle_us) {
  const std::shared_ptr<const PinnedEpoch>& at = task.search.at;
  if (task.epoch.value_or(at->epoch()) != at->epoch()) {
    return EpochPassed(*task.epoch, at->epoch());
  }
  Neighbors found;
  if (!task.claim.has_value()) {
    ABSL_ASSIGN_OR_RETURN(SearchReply reply,
                          SearchAndWait(&core.queue, TicketOf(call, task.search)));
    found = std::move(reply.result.queries.front());
  }
  const TimePoint begin = call.state()->clock().Now();
  absl::StatusOr<VerifyResult> result =
      core.engine->Verify(*task.search.collection,
                          {.query = task.search.queries.front(),
                           .neighbors = task.claim.has_value() ? *task.claim : found,
                           .epoch = at->epoch(),
                           .at = at},
                          [&call] { return call.Dead(); });
  *oracle_us = MicrosBetween(begin, call.state()->clock().Now());
  // A wrong claim of a client says nothing about this server.
  if (result.ok() && !result->equal && !task.claim.has_value()) {
    RaiseAlarm(core, call, task, found, *result);
  }
  return result;
}

}  // namespace

absl::Status VerifyAnswer(Core& core, Call& call, const pb::VerifyRequest& request,
                          pb::VerifyResponse* response) {
  call.record.collection = request.collection();
  ABSL_ASSIGN_OR_RETURN(const auto named, call.Find(core, request.collection()));
  if (request.has_incarnation()) {
    ABSL_RETURN_IF_ERROR(CheckIncarnation(*named, request.incarnation()));
  }
  ABSL_ASSIGN_OR_RETURN(VerifyTask task,
                        FromProto(request, named->collection, call.state()->limits()));
  if (const GivenFilter filter = FilterOf(request); filter.given()) {
    ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, ChooseRows(*named, filter, nullptr, call));
    task.search.at = chosen.at;
    task.search.queries.front().filter = chosen.rows;
    task.search.few_rows = IsFewRows(chosen);
    task.filter = ToSent(filter);
  } else {
    task.search.at = named->collection->PinEpoch();
  }
  ABSL_ASSIGN_OR_RETURN(ByteAccount::Hold terms_hold,
                        call.state()->ledger().requests.Reserve(call.caller(), 0));
  if (request.has_terms()) {
    const auto schema = named->attributes->SchemaAt(task.search.at->epoch());
    ABSL_ASSIGN_OR_RETURN(const TermList terms,
                          HeldTerms(*named, *schema, request.terms(), &terms_hold));
    ABSL_ASSIGN_OR_RETURN(task.search.queries.front().terms,
                          BindTerms(*named, terms, task.search.at, call, &terms_hold));
    task.terms = request.terms().SerializeAsString();
  }
  call.record.queries = 1;
  call.record.k = task.search.queries.front().k;
  int64_t oracle_us = 0;
  const absl::StatusOr<VerifyResult> result = Check(core, call, task, &oracle_us);
  if (absl::IsCancelled(result.status()) && call.Dead()) return call.DeadStatus();
  ABSL_RETURN_IF_ERROR(result.status());
  call.record.rows = result->rows_checked;
  ToProto(named->collection->spec(), *result, oracle_us, response);
  response->set_incarnation(named->incarnation);
  return absl::OkStatus();
}

}  // namespace nearfield::server

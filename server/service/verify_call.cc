#include "server/service/verify_call.h"

#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/admin.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {
namespace {

// Of a verification without an epoch that commits overtake.
constexpr int kTriesMax = 4;

// Through the queue, as any search.
absl::StatusOr<SearchReply> SearchAndWait(Core& core, const Call& call,
                                          const SearchRequest& search) {
  auto answer = std::make_shared<std::promise<absl::StatusOr<SearchReply>>>();
  std::future<absl::StatusOr<SearchReply>> ready = answer->get_future();
  SearchTicket ticket;
  ticket.request.collection = search.collection;
  ticket.request.values = search.values;
  ticket.request.queries = search.queries;
  // As every other search, so that it may share their pass.
  ticket.request.parts.bytes_max = call.state()->limits().response_bytes_max;
  SetVectorSpans(search.collection->spec(), &ticket.request);
  ticket.deadline = call.deadline();
  ticket.cancelled = call.cancelled();
  ticket.done = [answer](absl::StatusOr<SearchReply> reply) {
    answer->set_value(std::move(reply));
  };
  ABSL_RETURN_IF_ERROR(core.queue.Push(std::move(ticket)));
  return ready.get();
}

absl::Status EpochPassed(uint64_t claimed, uint64_t current) {
  return absl::FailedPreconditionError(absl::StrCat("epoch: the claim is of epoch ", claimed,
                                                    ", the collection is at epoch ", current));
}

// The answer to check, with its epoch.
absl::StatusOr<std::pair<Neighbors, uint64_t>> Claimed(Core& core, const Call& call,
                                                       const VerifyTask& task) {
  if (task.claim.has_value()) {
    const uint64_t epoch = task.epoch.value_or(task.search.collection->Stats().epoch);
    return std::make_pair(*task.claim, epoch);
  }
  ABSL_ASSIGN_OR_RETURN(SearchReply reply, SearchAndWait(core, call, task.search));
  if (task.epoch.has_value() && *task.epoch != reply.result.epoch) {
    return EpochPassed(*task.epoch, reply.result.epoch);
  }
  return std::make_pair(std::move(reply.result.queries.front()), reply.result.epoch);
}

// What the oracle says of the answer to check.
absl::StatusOr<VerifyResult> Check(Core& core, const Call& call, const VerifyTask& task,
                                   int64_t* oracle_us) {
  ABSL_ASSIGN_OR_RETURN(const auto claimed, Claimed(core, call, task));
  const TimePoint begin = call.state()->clock().Now();
  absl::StatusOr<VerifyResult> result =
      core.engine->Verify(*task.search.collection, task.search.queries.front(), claimed.second,
                          claimed.first, [&call] { return call.Dead(); });
  *oracle_us = MicrosBetween(begin, call.state()->clock().Now());
  return result;
}

// A commit or delete between the search and the oracle is nobody's fault where the caller named no
// epoch: the newer one is checked.
absl::StatusOr<VerifyResult> CheckAtAnEpoch(Core& core, const Call& call, const VerifyTask& task,
                                            int64_t* oracle_us) {
  absl::StatusOr<VerifyResult> result = Check(core, call, task, oracle_us);
  for (int tries = 1; tries < kTriesMax && !task.epoch.has_value() &&
                      absl::IsFailedPrecondition(result.status()) && !call.Dead();
       ++tries) {
    result = Check(core, call, task, oracle_us);
  }
  return result;
}

}  // namespace

absl::Status VerifyAnswer(Core& core, Call& call, const pb::VerifyRequest& request,
                          pb::VerifyResponse* response) {
  call.record.collection = request.collection();
  ABSL_RETURN_IF_ERROR(CheckServed(request));
  ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Find(request.collection()));
  ABSL_ASSIGN_OR_RETURN(const VerifyTask task,
                        FromProto(request, named->collection, call.state()->limits()));
  call.record.queries = 1;
  call.record.k = task.search.queries.front().k;
  int64_t oracle_us = 0;
  const absl::StatusOr<VerifyResult> result = CheckAtAnEpoch(core, call, task, &oracle_us);
  if (absl::IsCancelled(result.status()) && call.Dead()) return call.DeadStatus();
  ABSL_RETURN_IF_ERROR(result.status());
  call.record.rows = result->rows_checked;
  ToProto(named->collection->spec(), *result, oracle_us, response);
  return absl::OkStatus();
}

}  // namespace nearfield::server

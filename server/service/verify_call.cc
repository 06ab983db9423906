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

// Through the queue, as any search.
absl::StatusOr<SearchReply> SearchAndWait(Core& core, const Call& call,
                                          const SearchRequest& search) {
  auto answer = std::make_shared<std::promise<absl::StatusOr<SearchReply>>>();
  std::future<absl::StatusOr<SearchReply>> ready = answer->get_future();
  SearchTicket ticket;
  ticket.request.collection = search.collection;
  ticket.request.values = search.values;
  ticket.request.queries = search.queries;
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
                                                       VerifyTask* task) {
  if (task->claim.has_value()) {
    const uint64_t epoch = task->epoch.value_or(task->search.collection->Stats().epoch);
    return std::make_pair(*std::move(task->claim), epoch);
  }
  ABSL_ASSIGN_OR_RETURN(SearchReply reply, SearchAndWait(core, call, task->search));
  if (task->epoch.has_value() && *task->epoch != reply.result.epoch) {
    return EpochPassed(*task->epoch, reply.result.epoch);
  }
  return std::make_pair(std::move(reply.result.queries.front()), reply.result.epoch);
}

}  // namespace

absl::Status VerifyAnswer(Core& core, Call& call, const pb::VerifyRequest& request,
                          pb::VerifyResponse* response) {
  call.record.collection = request.collection();
  ABSL_RETURN_IF_ERROR(CheckServed(request));
  ABSL_ASSIGN_OR_RETURN(const auto named, core.catalog.Find(request.collection()));
  ABSL_ASSIGN_OR_RETURN(VerifyTask task,
                        FromProto(request, named->collection, call.state()->limits()));
  const Query& query = task.search.queries.front();
  call.record.queries = 1;
  call.record.k = query.k;
  ABSL_ASSIGN_OR_RETURN(const auto claimed, Claimed(core, call, &task));
  const TimePoint begin = call.state()->clock().Now();
  absl::StatusOr<VerifyResult> result = core.engine->Verify(
      *named->collection, query, claimed.second, claimed.first, [&call] { return call.Dead(); });
  if (absl::IsCancelled(result.status()) && call.Dead()) return call.DeadStatus();
  ABSL_RETURN_IF_ERROR(result.status());
  call.record.rows = result->rows_checked;
  const int64_t oracle_us = MicrosBetween(begin, call.state()->clock().Now());
  ToProto(named->collection->spec(), *result, oracle_us, response);
  return absl::OkStatus();
}

}  // namespace nearfield::server

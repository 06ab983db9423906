#include "server/service/search_call.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {
namespace {

// Above this a reply is made by a worker: the engine thread has better things to do than copy it.
constexpr int64_t kInlineReplyBytesMax = 64 * 1024;

// A search between its request and its reply.
struct Pending {
  Core* core = nullptr;
  const ServerState* state = nullptr;
  std::shared_ptr<const Collection> collection;
  RowParts parts;
  SearchFacts facts;
  TimePoint begin;
  pb::SearchResponse* response = nullptr;
  std::function<void(absl::Status, const SearchFacts&)> done;
};

absl::StatusOr<SearchRequest> Prepare(Core* core, const Call& call,
                                      const pb::SearchRequest& request) {
  const RequestLimits& limits = call.state()->limits();
  ABSL_RETURN_IF_ERROR(CheckServed(request));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<NamedCollection> named,
                        core->catalog.Find(request.collection()));
  ABSL_ASSIGN_OR_RETURN(SearchRequest native, FromProto(request, named->collection, limits));
  // Refused before the device works for it, where it is sure that the reply cannot be sent.
  native.reply_bytes_min = ReplyBytesMin(native, INT64_MAX);
  if (native.reply_bytes_min > limits.response_bytes_max) {
    native.reply_bytes_min = ReplyBytesMin(native, named->collection->Stats().rows_count);
    ABSL_RETURN_IF_ERROR(CheckReplyBytes(native.reply_bytes_min, limits, kSearchAdvice));
  }
  return native;
}

std::optional<TimePoint> SearchDeadline(const Call& call, TimePoint now) {
  const TimePoint latest =
      now + std::chrono::milliseconds(call.state()->settings().search_ms_max.value());
  return call.deadline().has_value() ? std::min(*call.deadline(), latest) : latest;
}

void Reply(Pending* pending, SearchReply reply) {
  pending->facts.queue_us = reply.timing.queue_us;
  pending->facts.device_us = reply.result.cost.device_us;
  for (const Neighbors& neighbors : reply.result.queries) {
    pending->facts.rows += static_cast<int64_t>(neighbors.scores.size());
  }
  ToProto(pending->collection->spec(), pending->parts, std::move(reply), pending->response);
  const int64_t total_us = MicrosBetween(pending->begin, pending->state->clock().Now());
  pending->response->mutable_cost()->set_total_us(static_cast<uint64_t>(total_us));
  const auto bytes = static_cast<int64_t>(pending->response->ByteSizeLong());
  absl::Status status = CheckReplyBytes(bytes, pending->state->limits(), kSearchAdvice);
  if (!status.ok()) pending->response->Clear();
  pending->done(std::move(status), pending->facts);
}

int64_t NativeBytes(const SearchReply& reply) {
  int64_t bytes = 0;
  for (const Neighbors& neighbors : reply.result.queries) {
    bytes += neighbors.ids.bytes() + static_cast<int64_t>(neighbors.scores.size() * sizeof(float)) +
             static_cast<int64_t>(neighbors.rows.size()) + neighbors.payloads.value_bytes();
  }
  return bytes;
}

// On the engine thread: a lone small answer leaves at once; of a shared pass, workers send the
// answers.
void OnAnswer(const std::shared_ptr<Pending>& pending, absl::StatusOr<SearchReply> answer) {
  if (!answer.ok())
    return pending->done(WithAdvice(answer.status(), kSearchAdvice), pending->facts);
  const bool shared =
      answer->timing.batch_size > static_cast<int32_t>(answer->result.queries.size());
  if (!shared && NativeBytes(*answer) <= kInlineReplyBytesMax)
    return Reply(pending.get(), *std::move(answer));
  auto kept = std::make_shared<SearchReply>(*std::move(answer));
  const absl::Status posted =
      pending->core->replies.Post([pending, kept] { Reply(pending.get(), std::move(*kept)); });
  if (!posted.ok()) Reply(pending.get(), std::move(*kept));
}

}  // namespace

void StartSearch(Core* core, const Call& call, const pb::SearchRequest& request,
                 pb::SearchResponse* response,
                 std::function<void(absl::Status, const SearchFacts&)> done) {
  const TimePoint begin = call.state()->clock().Now();
  absl::StatusOr<SearchRequest> native = Prepare(core, call, request);
  if (!native.ok()) return done(native.status(), SearchFacts{});
  auto pending = std::make_shared<Pending>();
  *pending = {.core = core,
              .state = call.state(),
              .collection = native->collection,
              .parts = native->parts,
              .facts = {.queries = static_cast<int64_t>(native->queries.size()),
                        .k = native->queries.front().k},
              .begin = begin,
              .response = response,
              .done = std::move(done)};
  SearchTicket ticket;
  ticket.request = *std::move(native);
  ticket.deadline = SearchDeadline(call, begin);
  ticket.cancelled = call.cancelled();
  ticket.done = [pending](absl::StatusOr<SearchReply> answer) {
    OnAnswer(pending, std::move(answer));
  };
  const absl::Status queued = core->queue.Push(std::move(ticket));
  if (!queued.ok()) pending->done(queued, pending->facts);
}

void Note(const SearchFacts& facts, RequestRecord* record) {
  record->queries += facts.queries;
  record->k = std::max(record->k, facts.k);
  record->rows += facts.rows;
  record->queue_us += facts.queue_us;
  record->device_us += facts.device_us;
}

}  // namespace nearfield::server

#include "server/rpc/called_search.h"

#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "server/convert/digest.h"
#include "server/convert/groups.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {
namespace {

// Larger replies of a search that is alone in its pass are made by a worker, because the engine
// thread has other passes to run.
constexpr int64_t kInlineReplyBytesMax = 64 * 1024;

// Keeps the epoch for the next pages. Errors: ResourceExhausted.
absl::Status KeepEpoch(const CalledSearch& pending, const std::vector<NextPage>& next,
                       const SearchReply& reply) {
  if (absl::c_all_of(next, [](const NextPage& page) { return page.cursor.empty(); })) {
    return absl::OkStatus();
  }
  return pending.core->pinned_snapshots.Keep(pending.caller, pending.named->collection, reply.at,
                                             pending.output.epoch_hold);
}

// Returns the number of rows that pass the filter, for each query; empty without a filter.
std::vector<int64_t> MatchedRows(const CalledSearch& pending, const SearchReply& reply) {
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

void Reply(CalledSearch* pending, SearchReply reply) {
  NoteReply(reply, &pending->facts);
  const int64_t bytes_read = reply.result.cost.bytes_read;
  pb::SearchResponse* const response = pending->output.response;
  absl::Status status =
      pending->attributes.Find(reply, pending->state->limits(), &pending->output.holds->reply);
  std::vector<NextPage> next = pending->page.Next(reply, pending->groups);
  const std::vector<int64_t> matched_rows = MatchedRows(*pending, reply);
  if (status.ok()) status = KeepEpoch(*pending, next, reply);
  if (!status.ok()) return FailSearch(pending, std::move(status));
  if (pending->packed) {
    ToPackedProto(std::move(reply), response);
  } else {
    ToProto(pending->named->collection->spec(), pending->parts, std::move(reply), response);
  }
  status = pending->attributes.ToProto(response);
  if (!status.ok()) return FailSearch(pending, std::move(status));
  for (size_t i = 0; i < pending->groups.size(); ++i) {
    ToProto(pending->groups[i], response->mutable_results(static_cast<int>(i))->mutable_groups());
  }
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

}  // namespace

// Releases the audit slot before calling `done`: the slot belongs to Core, which may be gone after
// the call ends.
void FailSearch(CalledSearch* pending, absl::Status status) {
  pending->audit = AuditDraw();
  pending->output.holds->reply.Resize(0);
  pending->done(std::move(status), pending->facts);
}

void AnswerSearch(const std::shared_ptr<CalledSearch>& pending,
                  absl::StatusOr<SearchReply> answer) {
  if (answer.ok() && pending->state->distrusted()) answer = ServerState::DistrustStatus();
  if (!answer.ok()) return FailSearch(pending.get(), WithAdvice(answer.status(), kSearchAdvice));
  if (!pending->grouping.has_value()) pending->audit.Submit(*answer);
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

}  // namespace nearfield::server

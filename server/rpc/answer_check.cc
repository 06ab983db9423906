#include "server/rpc/answer_check.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

size_t DrawOne(size_t count) {
  if (count == 1) return 0;
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_int_distribution<size_t>(0, count - 1)(random);
}

}  // namespace

void AuditDraw::Reserve(const SearchRequest& request, const AnswerOrigin& origin) {
  if (sampled()) slot_ = auditor_->Reserve();
  if (!slot_) return;
  query_ = DrawOne(request.queries.size());
  audited_.collection_name = origin.collection_name;
  audited_.request_id = origin.request_id;
  audited_.filter = origin.filter;
  audited_.collection = request.collection;
  audited_.query = OwnedQuery(request.queries[query_]);
}

void AuditDraw::Submit(const SearchReply& reply) {
  if (!slot_) return;
  audited_.at = reply.at;
  audited_.answer = WithoutParts(reply.result.queries[query_]);
  audited_.precision = reply.result.cost.precision;
  auditor_->Submit(std::move(slot_), std::move(audited_));
}

ReplyCheck::ReplyCheck(const SearchRequest& request, const AnswerOrigin& origin)
    : origin_(origin), collection_(request.collection) {
  for (const Query& query : request.queries) queries_.emplace_back(query);
}

absl::Status ReplyCheck::Run(Engine& engine, Alarm* alarm, const SearchReply& reply,
                             const std::function<bool()>& cancelled) const {
  for (size_t i = 0; i < queries_.size(); ++i) {
    const AuditedAnswer audited = {.collection_name = origin_.collection_name,
                                   .collection = collection_,
                                   .at = reply.at,
                                   .query = queries_[i],
                                   .answer = WithoutParts(reply.result.queries[i]),
                                   .precision = reply.result.cost.precision,
                                   .request_id = origin_.request_id,
                                   .filter = origin_.filter};
    ABSL_ASSIGN_OR_RETURN(const VerifyResult verdict, AskOracle(engine, audited, cancelled));
    if (verdict.equal) continue;
    alarm->Raise(AnswerMismatch{.found_by = "verify", .audited = audited, .verdict = verdict});
    return absl::DataLossError(absl::StrCat(
        "queries[", i, "]: the answer differs from the oracle's and is not sent; epoch ",
        verdict.epoch, ", ", verdict.explanation));
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server

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
  audited_.terms = origin.terms;
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

void AuditDraw::Submit(const GroupedReply& grouped, const GroupClaims& claims) {
  if (!slot_) return;
  const GroupColumn& groups = grouped.groups[query_];
  const auto claim = static_cast<int64_t>(DrawOne(static_cast<size_t>(GroupClaims::Count(groups))));
  audited_.at = grouped.reply.at;
  audited_.precision = grouped.reply.result.cost.precision;
  audited_.prepare = [claim, claims, groups,
                      rows = WithoutParts(grouped.reply.result.queries[query_])](
                         const std::function<bool()>& cancelled, AuditedAnswer* audited) {
    return claims.Set(claim, rows, groups, cancelled, audited);
  };
  auditor_->Submit(std::move(slot_), std::move(audited_));
}

ReplyCheck::ReplyCheck(const SearchRequest& request, const AnswerOrigin& origin)
    : origin_(origin), collection_(request.collection) {
  for (const Query& query : request.queries) queries_.emplace_back(query);
}

AuditedAnswer ReplyCheck::Audited(const SearchReply& reply, size_t query) const {
  return {.collection_name = origin_.collection_name,
          .collection = collection_,
          .at = reply.at,
          .query = queries_[query],
          .answer = WithoutParts(reply.result.queries[query]),
          .precision = reply.result.cost.precision,
          .request_id = origin_.request_id,
          .filter = origin_.filter,
          .terms = origin_.terms};
}

absl::Status ReplyCheck::CheckOne(Engine& engine, Alarm* alarm, size_t query,
                                  const AuditedAnswer& audited,
                                  const std::function<bool()>& cancelled) {
  ABSL_ASSIGN_OR_RETURN(const VerifyResult verdict, AskOracle(engine, audited, cancelled));
  if (verdict.equal) return absl::OkStatus();
  alarm->Raise(AnswerMismatch{.found_by = "verify", .audited = audited, .verdict = verdict});
  return absl::DataLossError(absl::StrCat(
      "queries[", query, "]: the answer differs from the oracle's and is not sent; epoch ",
      verdict.epoch, ", ", verdict.explanation));
}

absl::Status ReplyCheck::Run(Engine& engine, Alarm* alarm, const SearchReply& reply,
                             const std::function<bool()>& cancelled) const {
  for (size_t i = 0; i < queries_.size(); ++i) {
    ABSL_RETURN_IF_ERROR(CheckOne(engine, alarm, i, Audited(reply, i), cancelled));
  }
  return absl::OkStatus();
}

absl::Status ReplyCheck::Run(Engine& engine, Alarm* alarm, const GroupedReply& grouped,
                             const GroupClaims& claims,
                             const std::function<bool()>& cancelled) const {
  for (size_t i = 0; i < queries_.size(); ++i) {
    AuditedAnswer audited = Audited(grouped.reply, i);
    for (int64_t claim = 0; claim < GroupClaims::Count(grouped.groups[i]); ++claim) {
      const Neighbors& rows = grouped.reply.result.queries[i];
      ABSL_RETURN_IF_ERROR(claims.Set(claim, rows, grouped.groups[i], cancelled, &audited));
      ABSL_RETURN_IF_ERROR(CheckOne(engine, alarm, i, audited, cancelled));
    }
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server

// Checks answers of a search against the oracle: before the reply is sent, or in the audit.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/audit/audit.h"
#include "server/rpc/group_claims.h"
#include "server/rpc/group_search.h"
#include "server/rpc/server_state.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// The request that an answer belongs to.
struct AnswerOrigin {
  std::string collection_name;
  std::string request_id;
  // As in AuditedAnswer; only if the answer is checked.
  SentFilter filter;
  std::string terms;
};

// A search that the audit has chosen, and one of its queries. Empty for all other searches.
class AuditDraw {
 public:
  AuditDraw() = default;
  // Samples a search.
  explicit AuditDraw(Auditor* auditor) : auditor_(auditor->Sample() ? auditor : nullptr) {}
  bool sampled() const { return auditor_ != nullptr; }

  // Reserves a slot of the audit, if the search was sampled. Call it before the search is queued.
  void Reserve(const SearchRequest& request, const AnswerOrigin& origin);

  // If the search was chosen, passes the answer of the query to the auditor.
  void Submit(const SearchReply& reply);
  // As Submit, for groups: passes one claim of the answer at random.
  void Submit(const GroupedReply& grouped, const GroupClaims& claims);

 private:
  Auditor* auditor_ = nullptr;
  Auditor::Slot slot_;
  size_t query_ = 0;  // index in the request
  AuditedAnswer audited_;
};

// Checks all queries of a request with `verify`.
class ReplyCheck {
 public:
  ReplyCheck(const SearchRequest& request, const AnswerOrigin& origin);

  // Returns OK if every answer equals the oracle's. A difference raises the alarm. Blocks. Errors:
  // DataLoss (names query, place and values), Cancelled, those of Engine::Verify.
  absl::Status Run(Engine& engine, Alarm* alarm, const SearchReply& reply,
                   const std::function<bool()>& cancelled) const;
  // As above, for groups: every claim of every answer equals the oracle's.
  absl::Status Run(Engine& engine, Alarm* alarm, const GroupedReply& grouped,
                   const GroupClaims& claims, const std::function<bool()>& cancelled) const;

 private:
  // Returns the answer to a query, to be checked.
  AuditedAnswer Audited(const SearchReply& reply, size_t query) const;
  static absl::Status CheckOne(Engine& engine, Alarm* alarm, size_t query,
                               const AuditedAnswer& audited,
                               const std::function<bool()>& cancelled);

  const AnswerOrigin origin_;
  const std::shared_ptr<const Collection> collection_;
  std::vector<OwnedQuery> queries_;
};

}  // namespace nearfield::server

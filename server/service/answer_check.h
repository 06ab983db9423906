// The answers of a search that the oracle checks: before the reply is sent, or in the audit.
#ifndef NEARFIELD_SERVER_SERVICE_ANSWER_CHECK_H_
#define NEARFIELD_SERVER_SERVICE_ANSWER_CHECK_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/batching/search_request.h"
#include "server/catalog/audit/audit.h"
#include "server/service/server_state.h"

namespace nearfield::server {

// Whose answer it is.
struct AnswerOrigin {
  std::string collection_name;
  std::string request_id;
  std::string filter;  // the Filter message, if the answer is checked; empty: no filter
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

  // Hands the answer to that query to the auditor, where the search was chosen.
  void Submit(const SearchReply& reply);

 private:
  Auditor* auditor_ = nullptr;
  Auditor::Place place_;
  size_t query_ = 0;  // its place in the request
  AuditedAnswer audited_;
};

// All queries of a request that asks for `verify`.
class ReplyCheck {
 public:
  ReplyCheck(const SearchRequest& request, const AnswerOrigin& origin);

  // OK where every answer equals the oracle's. A difference raises the alarm. Blocks. Errors:
  // DataLoss (names query, place and values), Cancelled, those of Engine::Verify.
  absl::Status Run(Engine& engine, Alarm* alarm, const SearchReply& reply,
                   const std::function<bool()>& cancelled) const;

 private:
  const AnswerOrigin origin_;
  const std::shared_ptr<const Collection> collection_;
  std::vector<OwnedQuery> queries_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_ANSWER_CHECK_H_

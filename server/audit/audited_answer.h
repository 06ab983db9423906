// AuditedAnswer: an answer to check, with all that the oracle needs for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"

namespace nearfield::server {

// One query that owns its vector. The engine's Query borrows it.
class OwnedQuery {
 public:
  OwnedQuery() = default;
  explicit OwnedQuery(const Query& query)
      : values_(query.vector.begin(), query.vector.end()), query_(query) {
    query_.vector = {};
    query_.page_cache = nullptr;  // the oracle must not use results of earlier pages
  }

  // Returns a query that borrows from this object, which must outlive it.
  Query View() const {
    Query view = query_;
    view.vector = values_;
    return view;
  }

 private:
  std::vector<float> values_;
  Query query_;  // without its vector
};

// A filter as the client sent it; empty if there was none.
struct SentFilter {
  std::string text;
  std::vector<std::string> arguments;  // the bytes of each FilterArgument message
};

struct AuditedAnswer {
  std::string collection_name;
  std::shared_ptr<const Collection> collection;
  std::shared_ptr<const PinnedEpoch> at;  // the searched state, pinned until the check ends
  OwnedQuery query;
  Neighbors answer;  // ids and scores
  ScanPrecision precision = ScanPrecision::kRows;
  std::string request_id;
  SentFilter filter;
  std::string terms;  // the bytes of the RowTerms message as the client sent it; empty: none
  // Completes the fields above before the check. May be empty.
  std::function<absl::Status(const std::function<bool()>& cancelled, AuditedAnswer*)> prepare;
};

// Returns the ids and scores only: a check needs nothing else.
inline Neighbors WithoutParts(const Neighbors& neighbors) {
  Neighbors copy;
  copy.ids = neighbors.ids;
  copy.scores = neighbors.scores;
  copy.ids.Own();  // an audit may wait for long
  copy.scores.Mutable();
  return copy;
}

// Verifies the answer with the oracle at the answer's epoch. Errors: as Engine::Verify.
inline absl::StatusOr<VerifyResult> AskOracle(Engine& engine, const AuditedAnswer& audited,
                                              const std::function<bool()>& cancelled) {
  const Query query = audited.query.View();
  return engine.Verify(
      *audited.collection,
      {.query = query, .neighbors = audited.answer, .epoch = audited.at->epoch(), .at = audited.at},
      cancelled);
}

}  // namespace nearfield::server

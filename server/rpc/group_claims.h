// GroupClaims: a grouped answer as the answers to plain searches, which the oracle can check.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/found_groups.h"
#include "server/audit/audited_answer.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// The search that grouped answers belong to.
struct GroupedSearch {
  std::shared_ptr<const NamedCollection> named;
  Grouping grouping;
  FilterTree filter;  // only rows with a value of the attribute pass
  SentFilter sent;    // as the client sent it
  int32_t k = 0;      // groups
};

// A grouped answer is right if and only if these claims hold:
//   claim 0   Of one row of each group up to the end of the answer, the best one, and of all rows
//   of
//             other groups, those best rows come first; those of the answer are in this order,
//             after those of the groups before it.
//   claim i   Of the rows of group i - 1 of the answer, these are the best.
class GroupClaims {
 public:
  explicit GroupClaims(GroupedSearch search) : search_(std::move(search)) {}

  static int64_t Count(const GroupColumn& groups) {
    return 1 + static_cast<int64_t>(groups.rows_counts.size());
  }
  // Makes *audited, whose query is that of the grouped search, a claim of the answer `rows`.
  // Evaluates the filter of the claim, at the epoch audited->at. Errors: as
  // CollectionAttributes::Choose.
  absl::Status Set(int64_t claim, const Neighbors& rows, const GroupColumn& groups,
                   const std::function<bool()>& cancelled, AuditedAnswer* audited) const;

 private:
  struct Claim {
    FilterTree rows;  // in addition to the filter of the search
    SentFilter sent;  // all of it as a text
    int64_t skip = 0;
    int32_t k = 0;
    Neighbors answer;
  };
  Claim OfOrder(const Neighbors& rows, const GroupColumn& groups) const;
  Claim OfGroup(int64_t group, const Neighbors& rows, const GroupColumn& groups) const;

  const GroupedSearch search_;
};

}  // namespace nearfield::server

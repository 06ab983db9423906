// StartGroupSearch: the best rows of the best groups. A group is all rows with one value of a
// scalar attribute; groups are ordered by their best row.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/attributes/found_groups.h"
#include "server/collections/catalog.h"
#include "server/convert/limits.h"
#include "server/rpc/search_rounds.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

struct GroupedReply {
  SearchReply reply;                // the rows of each query: one group after the other
  std::vector<GroupColumn> groups;  // of each query
};

struct GroupSearch {
  SearchRounds rounds;
  // k, skip and tell_more of its queries count groups. `at` and the filters are set, and each row
  // of a filter has a value of the attribute.
  SearchRequest search;
  Grouping grouping;
  const NamedCollection* named = nullptr;
  RequestLimits limits;               // of one scan, too
  ByteAccount::Hold* hold = nullptr;  // grows by the memory of the search
};

// Calls `done` once, on any thread. Requires: what the pointers name lives until then.
// The answer is exact: a scan finds the best rows of the order, and with them the best groups. If
// these are too few, the next scan leaves out all rows of the groups found so far. A group whose
// rows did not all come up is filled by a search of its rows only.
// Cost: often one scan; at most one for each group up to the last one, and one for each k_max rows
// of the collection, because no row comes up twice. Then a search for each group that is filled.
// Errors: those of a search, ResourceExhausted (no memory).
void StartGroupSearch(GroupSearch search, std::function<void(absl::StatusOr<GroupedReply>)> done);

}  // namespace nearfield::server

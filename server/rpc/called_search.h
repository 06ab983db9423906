// CalledSearch: a search of a call, between its request and its reply.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/attributes/filter.h"
#include "server/attributes/found_groups.h"
#include "server/attributes/term_list.h"
#include "server/collections/catalog.h"
#include "server/rpc/answer_check.h"
#include "server/rpc/group_search.h"
#include "server/rpc/neighbor_attributes.h"
#include "server/rpc/search_call.h"
#include "server/rpc/search_facts.h"
#include "server/rpc/search_page.h"
#include "server/rpc/server_state.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

struct CalledSearch {
  Core* core = nullptr;
  ServerState* state = nullptr;
  std::shared_ptr<NamedCollection> named;
  SearchTicket ticket;  // valid until it is queued
  std::optional<Filter> filter;
  std::optional<TermList> terms;
  absl::Status evaluated;            // result of the evaluation of the filter and the terms
  std::optional<Grouping> grouping;  // absent: the search is for rows
  int64_t group_bytes = 0;           // expected for one group in addition to its rows
  std::vector<GroupColumn> groups;   // with `grouping`, of each query
  SearchPage page;
  std::optional<uint64_t> at_epoch;
  int32_t k = 0;  // requested from the engine
  RowParts parts;
  NeighborAttributes attributes;
  SearchFacts facts;
  TimePoint begin;
  std::string caller;
  SearchOutput output;
  std::function<void(absl::Status, const SearchFacts&)> done;
  AnswerOrigin origin;
  bool packed = false;
  bool with_digest = false;
  bool verify = false;
  AuditDraw audit;
  // With verify. A search for rows sets only the reply.
  absl::StatusOr<GroupedReply> checked = absl::UnknownError("not run");
};

// Ends the search with an error.
void FailSearch(CalledSearch* pending, absl::Status status);

// Makes the reply, and ends the search. Called on the thread that answers the search: for a shared
// pass that is a worker already. Sends the answer immediately, unless it is a large one that
// nothing else shares the pass with.
void AnswerSearch(const std::shared_ptr<CalledSearch>& pending, absl::StatusOr<SearchReply> answer);

}  // namespace nearfield::server

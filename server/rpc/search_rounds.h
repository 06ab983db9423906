// SearchRounds: the searches that one call makes one after the other, each queued like any other.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/rpc/server_state.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

struct SearchRounds {
  Core* core = nullptr;
  std::string caller;
  SearchPriority priority = SearchPriority::kInteractive;
  std::optional<TimePoint> deadline;  // of all rounds together
  CancelFlag cancelled;

  // Starts a search, and calls `done` once with its answer or its error: on a worker, or on this
  // thread if the search is refused. Errors: as SearchQueue::Push, and those of the search.
  void Start(SearchRequest request, std::function<void(absl::StatusOr<SearchReply>)> done) const;
};

}  // namespace nearfield::server

// A search on its way to the engine and back: engine types only.
#ifndef NEARFIELD_SERVER_BATCHING_SEARCH_REQUEST_H_
#define NEARFIELD_SERVER_BATCHING_SEARCH_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/batching/clock.h"

namespace nearfield::server {

// One batch may copy as much as this many replies of full size.
inline constexpr int64_t kBatchRepliesMax = 4;

// One validated search. Moved, never copied: the queries point into `values`.
struct SearchRequest {
  SearchRequest() = default;
  SearchRequest(SearchRequest&&) = default;
  SearchRequest& operator=(SearchRequest&&) = default;

  // Bytes it holds while it waits.
  int64_t bytes() const {
    return static_cast<int64_t>(values.capacity() * sizeof(float) + queries.size() * sizeof(Query));
  }

  std::shared_ptr<const Collection> collection;
  std::vector<float> values;   // storage of all query vectors
  std::vector<Query> queries;  // vectors are spans of `values`
  RowParts parts;
  int64_t reply_bytes_min = 0;  // least bytes of its reply
};

// What a search cost, its own wait included.
struct SearchTiming {
  int64_t queue_us = 0;
  int32_t batch_size = 0;  // queries that shared the device pass
};

struct SearchReply {
  SearchResult result;  // `result.cost` is that of the whole pass
  SearchTiming timing;
};

// Set by the caller's side when nobody waits for the answer any more.
using CancelFlag = std::shared_ptr<std::atomic<bool>>;
inline CancelFlag MakeCancelFlag() { return std::make_shared<std::atomic<bool>>(false); }

// A search in the queue. `done` is called exactly once, on the engine thread or by the caller of
// Push's thread.
struct SearchTicket {
  SearchRequest request;
  std::optional<TimePoint> deadline;
  CancelFlag cancelled;
  std::function<void(absl::StatusOr<SearchReply>)> done;
  TimePoint queued;  // set by the queue
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_SEARCH_REQUEST_H_

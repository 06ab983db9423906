// SearchRequest and SearchTicket: a search on its way to the engine and back. Engine types only.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/memory_ledger.h"

namespace nearfield::server {

// One batch may copy as many bytes as this many replies of maximum size.
inline constexpr int64_t kBatchRepliesMax = 4;

// One validated search. Movable; only Copy() copies it: the queries point into `values`.
struct SearchRequest {
  SearchRequest() = default;
  SearchRequest(SearchRequest&&) = default;
  SearchRequest& operator=(SearchRequest&&) = default;

  // Returns a copy, whose queries point into its own `values`.
  SearchRequest Copy() const {
    SearchRequest copy;
    copy.collection = collection;
    copy.at = at;
    copy.values = values;
    copy.queries = queries;
    for (Query& query : copy.queries) {
      if (query.vector.empty()) continue;
      query.vector = {copy.values.data() + (query.vector.data() - values.data()),
                      query.vector.size()};
    }
    copy.parts = parts;
    copy.attribute_bytes = attribute_bytes;
    copy.reply_bytes_min = reply_bytes_min;
    copy.few_rows = few_rows;
    return copy;
  }

  // Returns the bytes that the request holds while it waits. The rows of a filter, and terms, are
  // divided among all their holders. Numbers that terms read have a memory of their own.
  int64_t bytes() const {
    size_t bytes = values.capacity() * sizeof(float) + queries.size() * sizeof(Query);
    for (const Query& query : queries) {
      bytes += PartOf(query.filter);
      if (query.terms == nullptr) continue;
      size_t terms_bytes = sizeof(RowTerms) + query.terms->terms.capacity() * sizeof(RowTerm);
      for (const RowTerm& term : query.terms->terms) terms_bytes += PartOf(term.filter);
      bytes += terms_bytes / HoldersOf(query.terms);
    }
    return static_cast<int64_t>(bytes);
  }

  std::shared_ptr<const Collection> collection;
  // The state to search; null: the current one when the pass begins.
  std::shared_ptr<const PinnedEpoch> at;
  std::vector<float> values;   // storage of all query vectors
  std::vector<Query> queries;  // their vectors are spans of `values`
  RowParts parts;
  int64_t attribute_bytes = 0;  // expected bytes of the attributes of one neighbor in its reply
  int64_t reply_bytes_min = 0;  // minimum bytes of its reply
  bool few_rows = false;        // its filter matches so few rows that only these are scanned

 private:
  template <typename T>
  static size_t HoldersOf(const std::shared_ptr<T>& held) {
    return static_cast<size_t>(std::max<int64_t>(1, held.use_count()));
  }
  static size_t PartOf(const std::shared_ptr<const RowFilter>& filter) {
    if (filter == nullptr) return 0;
    return filter->chosen.capacity() * sizeof(uint64_t) / HoldersOf(filter);
  }
};

// Time that one search took, including its wait.
struct SearchTiming {
  int64_t queue_us = 0;
  int32_t batch_size = 0;  // queries that shared the device pass
};

struct SearchReply {
  SearchResult result;  // `result.cost` is that of the whole pass
  SearchTiming timing;
  std::shared_ptr<const PinnedEpoch> at;  // the state that was searched
};

// Set by the caller's side when it no longer waits for the answer.
using CancelFlag = std::shared_ptr<std::atomic<bool>>;
inline CancelFlag MakeCancelFlag() { return std::make_shared<std::atomic<bool>>(false); }

// Decides which of two waiting searches goes first.
enum class SearchPriority : uint8_t { kInteractive, kBatch };
inline constexpr size_t kPriorities = 2;
inline constexpr size_t IndexOf(SearchPriority priority) { return static_cast<size_t>(priority); }

// A thread that may run the pass of a search, if that is predicted to take at most `pass_us_max`.
struct LentThread {
  std::thread::id id;
  double pass_us_max = 0;  // 0: it runs none
};

// A search in the queue. `done` is called exactly once, on a thread of EngineThread or on a thread
// that calls the queue.
struct SearchTicket {
  SearchRequest request;
  std::string caller;  // callers get equal shares of the device
  SearchPriority priority = SearchPriority::kInteractive;
  std::optional<TimePoint> deadline;
  CancelFlag cancelled;
  LentThread lent_thread;
  // Polled by that thread at this interval while it runs the pass: true cancels the search. May be
  // null.
  static constexpr std::chrono::milliseconds kInterruptPoll{50};
  std::function<bool()> interrupted;
  std::function<void(absl::StatusOr<SearchReply>)> done;
  // Bytes reserved for the reply; lives until `done` is called. Null: none are reserved.
  ByteAccount::Hold* reply = nullptr;
  TimePoint queued;  // set by the queue
};

// Each ticket is allocated separately, so that forming a batch moves only pointers.
using SearchTickets = std::vector<std::unique_ptr<SearchTicket>>;

}  // namespace nearfield::server

// An open-loop load: searches arrive on a schedule that does not wait for answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/search_queue.h"

namespace nearfield::bench {

struct LoadSpec {
  double seconds = 1;
  double rate = 1000;        // searches per second, at random times
  double deadline_us = 1e6;  // deadline of each search, from its arrival
  int64_t callers = 16;      // each search belongs to a random one
  double quiet_rate = 0;     // searches per second of one more caller
  uint64_t seed = 1;
};

// The outcome of one search. Times are in microseconds.
struct Sample {
  enum class End : uint8_t { kPending, kAnswered, kRefused, kExpired, kOther };
  float at_us = 0;    // arrival, from the start of the load
  float took_us = 0;  // until the answer or the refusal
  End end = End::kPending;
  bool quiet = false;
};

struct LoadResult {
  std::vector<Sample> samples;
  double seconds = 0;             // from the first to the last arrival
  int64_t answered_twice = 0;     // other than 0: an error in the queue
  int64_t waiting_bytes_max = 0;  // in the queue
  int64_t resident_bytes_begin = 0;
  int64_t resident_bytes_max = 0;
  double lag_us_p99 = 0;  // delay with which the host sent searches
};

// Sends the load and waits for all answers.
LoadResult RunLoad(const LoadSpec& spec, const std::shared_ptr<const Collection>& collection,
                   const server::Clock& clock, server::SearchQueue* queue);

// Returns a search with one query, as a client sends it.
server::SearchTicket OneQuery(const std::shared_ptr<const Collection>& collection);

// Returns the resident memory of this process in bytes.
int64_t ResidentBytes();

}  // namespace nearfield::bench

// Load that does not wait for answers: what comes, comes, however slow the server is.
#ifndef NEARFIELD_TESTS_BENCH_OPEN_LOOP_H_
#define NEARFIELD_TESTS_BENCH_OPEN_LOOP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "server/batching/clock.h"
#include "server/batching/search_queue.h"

namespace nearfield::bench {

struct LoadSpec {
  double seconds = 1;
  double rate = 1000;        // searches a second, at random times
  double deadline_us = 1e6;  // of each search, from its arrival
  int64_t callers = 16;      // each search is of one of them, at random
  double quiet_rate = 0;     // searches a second of one more caller
  uint64_t seed = 1;
};

// What became of one search. Times are microseconds.
struct Sample {
  enum class End : uint8_t { kPending, kAnswered, kRefused, kExpired, kOther };
  float at_us = 0;    // of arrival, from the begin of the load
  float took_us = 0;  // until the answer, or the refusal
  End end = End::kPending;
  bool quiet = false;
};

struct LoadResult {
  std::vector<Sample> samples;
  double seconds = 0;             // from the first to the last arrival
  int64_t answered_twice = 0;     // 0, or there is a fault
  int64_t waiting_bytes_max = 0;  // of the queue
  int64_t resident_bytes_begin = 0;
  int64_t resident_bytes_max = 0;
  double lag_us_p99 = 0;  // by which the host was late to send
};

// Sends the load, waits for all answers.
LoadResult RunLoad(const LoadSpec& spec, const std::shared_ptr<const Collection>& collection,
                   const server::Clock& clock, server::SearchQueue* queue);

// A search with one query, as a client sends it.
server::SearchTicket OneQuery(const std::shared_ptr<const Collection>& collection);

// Bytes of this process in memory.
int64_t ResidentBytes();

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_OPEN_LOOP_H_

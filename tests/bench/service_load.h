// Load on a running server, through the client library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/client/client.h"

namespace nearfield::bench {

struct ServiceTarget {
  std::vector<client::Client> clients;  // one connection each; callers share them in turn
  std::string collection;
  std::vector<float> queries;  // [queries_count, dim] row-major
  uint32_t dim = 0;
  uint32_t k = 10;
  std::vector<client::Filter> filters = {};  // of the callers; empty: none
};

// The rows have lots: row i that of i % kLots.
inline constexpr int64_t kLots = 1009;
inline constexpr const char* kLotAttribute = "lot";

// Returns the filter of a caller, which chooses this share of the lots: no two of kLots callers
// have the same one.
client::Filter LotFilter(size_t caller, double share);

// The measured calls of one load.
struct LoadTally {
  std::vector<double> took_us;  // one per answered call
  int64_t failed = 0;
  std::string error;     // message of the first failure
  double batch_sum = 0;  // sum over searches of the queries in their pass
  double seconds = 0;    // duration of the load
};

struct Load {
  // Concurrent callers. In an open loop, later calls wait and their wait is included.
  int32_t callers = 1;
  double seconds = 1;
  double rate = 0;  // calls per second; 0: each caller sends one after another
};

// Makes call `number` of a load on the thread of `caller`, and adds it to the tally of that caller.
// Its time starts at `due`.
using CallOnce = std::function<void(size_t caller, size_t number,
                                    std::chrono::steady_clock::time_point due, LoadTally* tally)>;

// Runs a closed loop, or an open one: calls at random times, `rate` per second on average,
// independent of calls in flight. The time of a call starts when it was due.
LoadTally RunCalls(const Load& load, uint64_t seed, const CallOnce& call);

// Adds a call that has ended with this status.
void Note(const absl::Status& status, std::chrono::steady_clock::time_point due, LoadTally* tally);

// Runs searches as a load.
LoadTally RunLoad(const ServiceTarget& target, const Load& load, uint64_t seed);

struct LoadFigures {
  int64_t answered = 0;
  int64_t failed = 0;
  std::string error;
  double per_second = 0;  // answered
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
  double batch_mean = 0;
};

// Combines tallies of loads that ran concurrently.
LoadFigures Summarize(const std::vector<LoadTally>& tallies);

}  // namespace nearfield::bench

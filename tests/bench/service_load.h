// Load on a running server, through the client library.
#ifndef NEARFIELD_TESTS_BENCH_SERVICE_LOAD_H_
#define NEARFIELD_TESTS_BENCH_SERVICE_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nearfield/client/client.h"

namespace nearfield::bench {

struct ServiceTarget {
  std::vector<client::Client> clients;  // a connection each; callers share them in turn
  std::string collection;
  std::vector<float> queries;  // [queries_count, dim] row-major
  uint32_t dim = 0;
  uint32_t k = 10;
};

// What was seen of searches.
struct LoadTally {
  std::vector<double> took_us;  // of each that was answered
  int64_t failed = 0;
  std::string error;     // of the first failure
  double batch_sum = 0;  // over searches, queries that shared a pass
  double seconds = 0;    // that the load took
};

struct Load {
  int32_t callers = 1;  // at once; in an open loop, one more waits, and its wait counts
  double seconds = 1;
  double rate = 0;  // searches a second; 0: each caller sends one after the other
};

// A closed loop, or an open one: searches at random times, `rate` a second in the mean, whatever is
// still under way; a search's time counts from when it was to be sent.
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

// Of tallies that were taken at the same time.
LoadFigures Summarize(const std::vector<LoadTally>& tallies);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SERVICE_LOAD_H_

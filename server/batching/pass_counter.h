// What the device passes of a server cost in all.
#ifndef NEARFIELD_SERVER_BATCHING_PASS_COUNTER_H_
#define NEARFIELD_SERVER_BATCHING_PASS_COUNTER_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "nearfield/engine/engine.h"

namespace nearfield::server {

// Sums over the passes that answered, each once, however many searches shared it.
struct PassCounts {
  int64_t passes = 0;
  std::map<ScanPrecision, int64_t> queries;  // by what most of the pass's queries scanned
  int64_t device_us = 0;
  int64_t candidates = 0;
  int64_t bytes_read = 0;
  ScanEscalations escalations;
};

// Thread-safe.
class PassCounter {
 public:
  void Note(const SearchResult& result);
  PassCounts counts() const;

 private:
  mutable std::mutex mutex_;
  PassCounts counts_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_PASS_COUNTER_H_

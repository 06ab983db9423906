// FilterCache: results of recently used filters.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/row_filter.h"
#include "server/attributes/evaluate.h"

namespace nearfield::server {

struct FilterRows : RowFilter {
  int64_t rows_count = 0;  // number of set bits
};

// LRU cache of filter results; one serves all collections. Results of old versions are evicted as
// they age. Thread-safe.
class FilterCache {
 public:
  // 0 bytes: the cache stays empty.
  explicit FilterCache(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Returns the result of Evaluate() as bits, from the cache or computed. Callers with the same
  // filter share one result. `ids_version` identifies the state that resolve_ids sees (the epoch,
  // of one collection). The result of a filter with has_id is valid for that state only; others are
  // valid for the snapshot's version at any epoch. Concurrent calls for the same filter may both
  // evaluate it.
  // Errors: those of Evaluate().
  absl::StatusOr<std::shared_ptr<const FilterRows>> Evaluate(const Filter& filter,
                                                             const AttributeSnapshot& snapshot,
                                                             const EvaluateOptions& options,
                                                             uint64_t ids_version);

  // Returns the cached result; null if Evaluate() would have to compute it.
  std::shared_ptr<const FilterRows> Find(const Filter& filter, const AttributeSnapshot& snapshot,
                                         uint64_t ids_version);

  struct Stats {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t evictions = 0;
    int64_t entries_count = 0;
    int64_t bytes = 0;
  };
  Stats stats() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const FilterRows> rows;
    int64_t bytes = 0;
  };

  std::shared_ptr<const FilterRows> Find(const std::string& key);
  void Keep(const std::string& key, std::shared_ptr<const FilterRows> rows);

  const int64_t bytes_max_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator, absl::Hash<std::string>> places_
      ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

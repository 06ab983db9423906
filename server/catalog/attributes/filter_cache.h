// Answers of filters that were asked for lately.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_CACHE_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/row_filter.h"
#include "server/catalog/attributes/evaluate.h"

namespace nearfield::server {

struct FilterRows : RowFilter {
  int64_t rows_count = 0;  // of those chosen
};

// Thread-safe; one serves all collections. What was not asked for the longest time goes first,
// which is also how the answers of past versions go.
class FilterCache {
 public:
  // 0 bytes: nothing is kept.
  explicit FilterCache(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // The answer of Evaluate() as bits, kept or made: those who ask for the same share one.
  // `ids_version` names the state that resolve_ids sees (the epoch, of one collection): a filter
  // with has_id is kept for that state only, others for the snapshot's version, whatever the epoch.
  // Two that ask for the same at once may both evaluate. Errors: those of Evaluate().
  absl::StatusOr<std::shared_ptr<const FilterRows>> Evaluate(const Filter& filter,
                                                             const AttributeSnapshot& snapshot,
                                                             const EvaluateOptions& options,
                                                             uint64_t ids_version);

  // Returns the kept answer; null where Evaluate() would have to make it.
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
  mutable std::mutex mutex_;  // guards what follows
  std::list<Entry> entries_;  // the latest first
  std::unordered_map<std::string, std::list<Entry>::iterator, absl::Hash<std::string>> places_;
  Stats stats_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_CACHE_H_

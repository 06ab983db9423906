#include "server/attributes/filter_cache.h"

#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// Bytes of the list node, the table slot and the headers of two strings.
constexpr int64_t kEntryBytes = 256;

std::string KeyOf(const Filter& filter, uint64_t version, uint64_t ids_version) {
  const uint64_t versions[2] = {version, filter.has_ids() ? ids_version : 0};
  std::string key(reinterpret_cast<const char*>(versions), sizeof versions);
  return key += filter.canonical();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FilterRows>> FilterCache::Evaluate(
    const Filter& filter, const AttributeSnapshot& snapshot, const EvaluateOptions& options,
    uint64_t ids_version) {
  const std::string key = KeyOf(filter, snapshot.version, ids_version);
  if (std::shared_ptr<const FilterRows> kept = Find(key)) return kept;
  ABSL_ASSIGN_OR_RETURN(const OrdinalSet rows, server::Evaluate(filter, snapshot, options));
  auto bits = std::make_shared<FilterRows>();
  if (!rows.empty()) bits->chosen.resize(size_t{rows.last()} / 64 + 1);
  bits->rows_count = rows.size();
  rows.CopyWords(0, absl::MakeSpan(bits->chosen));
  const std::shared_ptr<const FilterRows> shared = std::move(bits);
  Keep(key, shared);
  return shared;
}

std::shared_ptr<const FilterRows> FilterCache::Find(const Filter& filter,
                                                    const AttributeSnapshot& snapshot,
                                                    uint64_t ids_version) {
  return Find(KeyOf(filter, snapshot.version, ids_version));
}

std::shared_ptr<const FilterRows> FilterCache::Find(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) {
    ++stats_.misses;
    return nullptr;
  }
  ++stats_.hits;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->rows;
}

void FilterCache::Keep(const std::string& key, std::shared_ptr<const FilterRows> rows) {
  const int64_t bytes = kEntryBytes + 2 * static_cast<int64_t>(key.size()) +
                        static_cast<int64_t>(rows->chosen.capacity() * sizeof(uint64_t));
  if (bytes > bytes_max_) return;
  const MutexLock lock(mutex_);
  if (places_.contains(key)) return;  // another caller was faster
  std::list<Entry> entry;
  entry.push_front({.key = key, .rows = std::move(rows), .bytes = bytes});
  places_.emplace(key, entry.begin());
  entries_.splice(entries_.begin(), entry);
  stats_.bytes += bytes;
  while (stats_.bytes > bytes_max_) {
    stats_.bytes -= entries_.back().bytes;
    places_.erase(entries_.back().key);
    entries_.pop_back();
    ++stats_.evictions;
  }
  CHECK_GE(stats_.bytes, 0);
  CHECK_EQ(places_.size(), entries_.size());
  stats_.entries_count = static_cast<int64_t>(entries_.size());
}

FilterCache::Stats FilterCache::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

}  // namespace nearfield::server

// The rows of a snapshot that a filter chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/row_filter.h"

namespace nearfield::corpus {

// Some of the live rows of a snapshot, with one entry for each generation. Immutable.
struct RowSelection {
  // Null: no row is excluded. Else the deleted and the excluded rows.
  std::vector<std::shared_ptr<const backend::Tombstones>> tombstones;
  std::vector<int64_t> rows_live;  // number of chosen rows; may be 0
  // The slots of the chosen rows if they are few; else there is no entry.
  std::vector<std::vector<uint32_t>> slots;
  int64_t rows_count = 0;
};

// A set of rows of one snapshot: one bit for each row.
class RowSet {
 public:
  void Add(const CorpusSnapshot& snapshot, const RowRef& row);
  int64_t bytes() const;
  // Returns the bits of one generation: bit (slot % 64) of word slot / 64. Empty if none of its
  // rows was added.
  absl::Span<const uint64_t> words(size_t generation) const {
    if (generation >= words_.size()) return {};
    return words_[generation];
  }

 private:
  std::vector<std::vector<uint64_t>> words_;  // one entry for each generation
};

// The rows that a search may return.
struct SearchedRows {
  std::shared_ptr<const CorpusSnapshot> snapshot;
  std::shared_ptr<const RowSelection> selection;  // null: all live rows

  int64_t rows_count() const;
  // Returns whether these rows include a live row of the snapshot.
  bool Holds(const RowRef& row) const;
  std::vector<backend::GenerationView> Views() const;
};

// Returns the bytes of the bits of one selection on the device.
int64_t SelectionBytes(const CorpusSnapshot& snapshot);

// Returns the live rows that the filter chooses. Errors: ResourceExhausted (no device memory for
// one bit for each row).
absl::StatusOr<RowSelection> SelectRows(const Device& device, const CorpusSnapshot& snapshot,
                                        const RowFilter& filter);

// Returns the slots of the live rows of one generation that the filter chooses, ascending.
std::vector<uint32_t> ChosenSlots(const GenerationState& state, const RowFilter& filter);

// Return the live rows, the live rows with these ids (both by ordinal), and the number of live rows
// that the filter chooses.
RowFilter LiveRows(const CorpusSnapshot& snapshot);
RowFilter RowsWithIds(const CorpusSnapshot& snapshot, const IdColumn& ids);
int64_t CountChosen(const CorpusSnapshot& snapshot, const RowFilter& filter);

// Returns `rows` without the rows of `left_out`. Errors: as SelectRows.
absl::StatusOr<SearchedRows> WithoutRows(const Device& device, const SearchedRows& rows,
                                         const RowSet& left_out);

// Caches the last selections, so that repeated use of a filter on the same snapshot costs nothing.
// Thread-safe.
class RowSelectionCache {
 public:
  absl::StatusOr<std::shared_ptr<const RowSelection>> Get(
      const Device& device, const std::shared_ptr<const CorpusSnapshot>& snapshot,
      const std::shared_ptr<const RowFilter>& filter);

  // Removes entries that can never be requested again.
  void Trim() { TrimTo(kBytesMax); }

 private:
  // The cache keeps selections of this size together, and of this part of the device's memory. It
  // keeps kEntriesKept however large they are.
  static constexpr int64_t kBytesMax = int64_t{64} << 20;
  static constexpr int64_t kDeviceParts = 64;
  static constexpr size_t kEntriesKept = 16;
  struct Key {
    const CorpusSnapshot* snapshot = nullptr;
    const RowFilter* filter = nullptr;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.snapshot) * 31 + std::hash<const void*>()(key.filter);
    }
  };
  // A weak pointer cannot match a later object at the same address.
  struct Entry {
    Key key;
    std::weak_ptr<const CorpusSnapshot> snapshot;
    std::weak_ptr<const RowFilter> filter;
    std::shared_ptr<const RowSelection> selection;
    int64_t bytes = 0;

    bool IsOver() const { return snapshot.expired() || filter.expired(); }
  };
  using Entries = std::list<Entry>;

  std::shared_ptr<const RowSelection> Find(const std::shared_ptr<const CorpusSnapshot>& snapshot,
                                           const std::shared_ptr<const RowFilter>& filter);
  void Add(const std::shared_ptr<const CorpusSnapshot>& snapshot,
           const std::shared_ptr<const RowFilter>& filter,
           const std::shared_ptr<const RowSelection>& selection);
  // Removes entries that can never be requested again, and the least recently used ones until the
  // others are few or take at most `bytes_max`; all if it is 0.
  void TrimTo(int64_t bytes_max);
  // Moves an entry to `removed`, which is destroyed after the lock is released.
  void Remove(Entries::iterator entry, Entries* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<Key, Entries::iterator, HashOfKey> places_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace nearfield::corpus

// A snapshot as a filter lets it be seen.
#ifndef NEARFIELD_ENGINE_CORPUS_FILTERED_H_
#define NEARFIELD_ENGINE_CORPUS_FILTERED_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/row_filter.h"

namespace nearfield::corpus {

// Some of the live rows of a snapshot: one entry a generation of it. Immutable.
struct Choice {
  // Null: no row is left out. Else the deleted rows and those left out.
  std::vector<std::shared_ptr<const Tombstones>> tombstones;
  std::vector<int64_t> rows_live;  // of those chosen; may be 0
  // The slots of those chosen where they are few among all; else empty as a whole.
  std::vector<std::vector<uint32_t>> slots;
  int64_t rows_count = 0;
};

// Some rows of one snapshot: a bit a row.
class RowSet {
 public:
  void Add(const CorpusSnapshot& snapshot, const RowRef& row);
  int64_t bytes() const;
  // Of one generation: bit (slot % 64) of word slot / 64. Empty where none of its rows was added.
  absl::Span<const uint64_t> words(size_t generation) const {
    if (generation >= words_.size()) return {};
    return words_[generation];
  }

 private:
  std::vector<std::vector<uint64_t>> words_;  // one a generation
};

// The rows that a search may answer with.
struct SearchedRows {
  std::shared_ptr<const CorpusSnapshot> snapshot;
  std::shared_ptr<const Choice> choice;  // null: all live rows

  int64_t rows_count() const;
  // Reports whether a live row of the snapshot is among them.
  bool Holds(const RowRef& row) const;
  std::vector<GenerationView> Views() const;
};

// The live rows that the filter chooses. Errors: ResourceExhausted (no device memory for a bit a
// row).
absl::StatusOr<Choice> Choose(const Device& device, const CorpusSnapshot& snapshot,
                              const RowFilter& filter);

// The slots of the live rows of one generation that the filter chooses, ascending.
std::vector<uint32_t> ChosenSlots(const GenerationState& state, const RowFilter& filter);

// The live rows, by ordinal; those of them with these ids; and how many the filter chooses.
RowFilter LiveRows(const CorpusSnapshot& snapshot);
RowFilter RowsWithIds(const CorpusSnapshot& snapshot, const IdColumn& ids);
int64_t CountChosen(const CorpusSnapshot& snapshot, const RowFilter& filter);

// `rows` without some of them. Errors: as Choose.
absl::StatusOr<SearchedRows> WithoutRows(const Device& device, const SearchedRows& rows,
                                         const RowSet& left_out);

// Remembers the last few choices, so that a filter used again on the same snapshot costs nothing.
// Thread-safe.
class ChoiceCache {
 public:
  absl::StatusOr<std::shared_ptr<const Choice>> Get(
      const Device& device, const std::shared_ptr<const CorpusSnapshot>& snapshot,
      const std::shared_ptr<const RowFilter>& filter);

  // Forgets what nobody can ask for again.
  void Trim() { TrimTo(kEntriesMax); }

 private:
  static constexpr size_t kEntriesMax = 16;
  // A snapshot or filter that is gone never comes again, though another may have its address.
  struct Entry {
    std::weak_ptr<const CorpusSnapshot> snapshot;
    std::weak_ptr<const RowFilter> filter;
    std::shared_ptr<const Choice> choice;
  };

  std::shared_ptr<const Choice> Find(const std::shared_ptr<const CorpusSnapshot>& snapshot,
                                     const std::shared_ptr<const RowFilter>& filter);
  // And beyond `entries_max` what was not asked for longest.
  void TrimTo(size_t entries_max);

  std::mutex mutex_;
  std::list<Entry> entries_;  // the latest asked for first
};

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_FILTERED_H_

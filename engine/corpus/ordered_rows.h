// IdOrderMerge: the rows of a snapshot in the order of their ids, over all its generations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/corpus/id_order.h"
#include "engine/corpus/snapshot.h"

namespace nearfield::corpus {

// A k-way merge. It also visits deleted rows, so that each step has a constant cost; an id may
// therefore occur once in each generation.
class IdOrderMerge {
 public:
  // Starts at the first id, or after the only id of `after` (may be null). `snapshot` outlives this
  // object. Cost: a binary search in each generation.
  IdOrderMerge(const CorpusSnapshot& snapshot, const IdColumn* after);

  bool ended() const { return heads_.empty(); }
  // Requires: !ended().
  RowRef row() const { return RowOf(heads_.front()); }
  // Returns whether the id of the current row is that of `other`. Requires: !ended().
  bool HasIdOf(const RowRef& other) const;
  // Moves to the next row. Requires: !ended().
  void Next();

 private:
  // The next row of one generation.
  struct Head {
    uint32_t generation = 0;
    int64_t place = 0;
  };
  OrderedIds IdsOf(const Head& head) const {
    return snapshot_->generations[head.generation].generation->ordered_ids();
  }
  RowRef RowOf(const Head& head) const {
    return {.generation = head.generation, .slot = IdsOf(head).index(head.place)};
  }
  bool Before(const Head& a, const Head& b) const {
    return IdsOf(a).Compare(a.place, IdsOf(b), b.place) < 0;
  }
  // Moves the head at `index` down until no child comes before it.
  void SiftDown(size_t index);

  const CorpusSnapshot* const snapshot_;
  std::vector<Head> heads_;  // a binary heap: the smallest id first
};

}  // namespace nearfield::corpus

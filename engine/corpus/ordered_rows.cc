#include "engine/corpus/ordered_rows.h"

#include <utility>

#include "engine/base/check.h"

namespace nearfield::corpus {

IdOrderMerge::IdOrderMerge(const CorpusSnapshot& snapshot, const IdColumn* after)
    : snapshot_(&snapshot) {
  const std::vector<uint32_t> first = {0};
  for (size_t g = 0; g < snapshot.generations.size(); ++g) {
    Head head = {.generation = static_cast<uint32_t>(g)};
    const OrderedIds ids = IdsOf(head);
    if (after != nullptr) {
      const OrderedIds wanted = {.ids = after, .order = first};
      head.place = Gallop(ids, 0, wanted, 0);
      if (head.place < ids.size() && ids.Compare(head.place, wanted, 0) == 0) ++head.place;
    }
    if (head.place < ids.size()) heads_.push_back(head);
  }
  for (size_t index = heads_.size() / 2; index > 0; --index) SiftDown(index - 1);
}

bool IdOrderMerge::HasIdOf(const RowRef& other) const {
  const RowRef now = row();
  return snapshot_->generations[now.generation].generation->ids.Compare(
             now.slot, snapshot_->generations[other.generation].generation->ids, other.slot) == 0;
}

void IdOrderMerge::Next() {
  DCHECK(!ended());
  Head& head = heads_.front();
  if (++head.place == IdsOf(head).size()) {
    head = heads_.back();
    heads_.pop_back();
  }
  if (!heads_.empty()) SiftDown(0);
}

void IdOrderMerge::SiftDown(size_t index) {
  while (true) {
    size_t least = index;
    for (const size_t child : {2 * index + 1, 2 * index + 2}) {
      if (child < heads_.size() && Before(heads_[child], heads_[least])) least = child;
    }
    if (least == index) return;
    std::swap(heads_[index], heads_[least]);
    index = least;
  }
}

}  // namespace nearfield::corpus

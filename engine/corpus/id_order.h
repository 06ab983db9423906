// Functions on id columns: sorting, finding duplicates, and intersecting two sorted columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nearfield/engine/id_column.h"

namespace nearfield::corpus {

// Returns the indices of `ids` in id order; equal ids by index. Requires: ids.size() <= kRowsMax.
// Cost: one pass if the column is sorted already; else a sort with 16 additional bytes for each id.
std::vector<uint32_t> OrderById(const IdColumn& ids);

// Returns the inverse permutation: place[order[i]] = i. If `order` is the slots in id order, these
// are the ranks of the slots.
std::vector<uint32_t> Inverse(absl::Span<const uint32_t> order);

// Returns the index of an id that `ids` holds twice (the later of the two), or nullopt. `order` is
// OrderById(ids).
std::optional<uint32_t> FindDouble(const IdColumn& ids, absl::Span<const uint32_t> order);

// Returns an id as messages show it: `17`, or `"name"` with unprintable bytes escaped.
std::string IdText(const Id& id);

// Checks the type of ids that a caller gave for a collection with ids of `type`. Errors:
// InvalidArgument.
absl::Status CheckIdType(const IdColumn& ids, IdType type);

// Returns the bytes of all string ids; 0 for numbers.
int64_t StringBytes(const IdColumn& ids);

// A column with its order. Both are borrowed.
struct OrderedIds {
  const IdColumn* ids = nullptr;
  absl::Span<const uint32_t> order;

  int64_t size() const { return static_cast<int64_t>(order.size()); }
  uint32_t index(int64_t place) const { return order[static_cast<size_t>(place)]; }
  int Compare(int64_t place, const OrderedIds& other, int64_t other_place) const {
    return ids->Compare(index(place), *other.ids, other.index(other_place));
  }
};

// Returns the first place in [begin, a.size()) whose id is not less than b's id at `place`. Uses
// galloping search: steps that double, then a binary search.
int64_t Gallop(const OrderedIds& a, int64_t begin, const OrderedIds& b, int64_t place);

// Calls visit(a_index, b_index) for every id of `a` that `b` holds too, in id order, until visit
// returns false. `a` may hold an id several times; `b` must not. Cost: about m log(n / m)
// comparisons for sizes m <= n.
template <typename Visit>
void ForEachShared(const OrderedIds& a, const OrderedIds& b, Visit visit) {
  int64_t i = 0;
  int64_t j = 0;
  while (i < a.size() && j < b.size()) {
    const int compared = a.Compare(i, b, j);
    if (compared == 0) {
      if (!visit(a.index(i), b.index(j))) return;
      ++i;
    } else if (compared < 0) {
      i = Gallop(a, i + 1, b, j);
    } else {
      j = Gallop(b, j + 1, a, i);
    }
  }
}

}  // namespace nearfield::corpus

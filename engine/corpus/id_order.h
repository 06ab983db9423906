// Ids in their order: sorting a column, finding doubles, and the ids two sorted columns share.
#ifndef NEARFIELD_ENGINE_CORPUS_ID_ORDER_H_
#define NEARFIELD_ENGINE_CORPUS_ID_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/id_column.h"

namespace nearfield::corpus {

// Indices of `ids` in id order; equal ids by index. Requires ids.size() <= kRowsMax.
// Cost: one pass where the column is in order already; else a sort with 16 bytes an id beside it.
std::vector<uint32_t> OrderById(const IdColumn& ids);

// place[order[i]] = i: for order = slots in id order, the rank of each slot.
std::vector<uint32_t> Inverse(absl::Span<const uint32_t> order);

// Index of an id that `ids` holds twice (the later of the two); `order` is OrderById(ids).
std::optional<uint32_t> FindDouble(const IdColumn& ids, absl::Span<const uint32_t> order);

// `17`, or `"name"` with unprintable bytes escaped: how messages name an id.
std::string IdText(const Id& id);

// A column with its order, borrowed.
struct OrderedIds {
  const IdColumn* ids = nullptr;
  absl::Span<const uint32_t> order;

  int64_t size() const { return static_cast<int64_t>(order.size()); }
  uint32_t index(int64_t place) const { return order[static_cast<size_t>(place)]; }
  int Compare(int64_t place, const OrderedIds& other, int64_t other_place) const {
    return ids->Compare(index(place), *other.ids, other.index(other_place));
  }
};

// The first place in [begin, a.size()) whose id is not less than b's at `place`: doubling steps,
// then halving them.
int64_t Gallop(const OrderedIds& a, int64_t begin, const OrderedIds& b, int64_t place);

// Calls visit(a_index, b_index) for every id of `a` that `b` holds too, in id order, until visit
// returns false. `a` may hold an id several times, `b` may not. Cost: about m log(n / m)
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

#endif  // NEARFIELD_ENGINE_CORPUS_ID_ORDER_H_

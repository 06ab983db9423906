#include "server/attributes/value_column.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nearfield::server {

void ValueColumn::SortDistinct() {
  std::vector<int64_t> order(static_cast<size_t>(size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto less = [&](int64_t a, int64_t b) {
    return is_keyword() ? keyword(a) < keyword(b) : key(a) < key(b);
  };
  std::sort(order.begin(), order.end(), less);
  const auto equal = [&](int64_t a, int64_t b) { return !less(a, b); };  // after sorting, a <= b
  order.erase(std::unique(order.begin(), order.end(), equal), order.end());
  ValueColumn sorted(type_);
  for (const int64_t index : order) sorted.AppendFrom(*this, index);
  *this = std::move(sorted);
}

}  // namespace nearfield::server

// The total order between rows of different lists: the higher score first; on equal scores the
// smaller id first. Host only. Inside one generation, order.h implements the same order with ranks.
// This comparator decides where ranks are not comparable: lists of different generations or shards,
// and the oracle.
#pragma once

#include <cstdint>

#include "nearfield/engine/id_column.h"

namespace nearfield::score {

// A scored row. Its id is borrowed from a column.
struct ScoredId {
  float score = 0;  // never NaN, never -0
  const IdColumn* ids = nullptr;
  int64_t index = 0;  // of the row's id in `ids`
};

// Returns true if `a` comes before `b` in an answer. A strict total order over rows with different
// ids of one type.
inline bool ComesBefore(const ScoredId& a, const ScoredId& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.ids->Compare(a.index, *b.ids, b.index) < 0;
}

}  // namespace nearfield::score

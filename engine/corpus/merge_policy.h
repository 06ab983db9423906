// The choice of generations to merge when a corpus has its maximum number of them: a pure function
// of their sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::corpus {

// Returns the indices of two or more generations to copy into one; empty if no two fit into one
// (kRowsMax).
//
// A merge is balanced if its largest part is at most twice as large as all others together. Then
// each copied row ends in a generation at least 1.5 times as large as before. So no row is copied
// more than about log1.5(rows) times, for any number of commits. Among the balanced merges of about
// minimum cost, the function chooses the one with the fewest copied rows for each generation that
// it frees. If no merge is balanced, each size is about three times the one before it or more, and
// the two smallest together are tiny compared with the rest. Then it chooses these two.
std::vector<size_t> ChooseMerge(absl::Span<const int64_t> rows_live);

// Returns the two smallest generations, whose merge needs the minimum memory. Empty if they do not
// fit into one.
std::vector<size_t> SmallestMerge(absl::Span<const int64_t> rows_live);

}  // namespace nearfield::corpus

// Which generations to merge when a corpus has as many as it may: a pure function of their sizes.
#ifndef NEARFIELD_ENGINE_CORPUS_MERGE_POLICY_H_
#define NEARFIELD_ENGINE_CORPUS_MERGE_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::corpus {

// Indices of two or more generations to copy into one; empty where no two fit into one (kRowsMax).
//
// A merge is balanced where its largest part is at most twice the others together: each row it
// copies then ends in a generation at least 1.5 times as large as before, so no row is copied more
// than about log1.5(rows) times, however many commits there are. Among balanced merges of about the
// smallest cost it takes the one that copies fewest rows for each place it makes free. Where none
// is balanced, sizes grow threefold from one to the next, and the two smallest together are tiny
// beside the rest: those.
std::vector<size_t> ChooseMerge(absl::Span<const int64_t> rows_live);

// The two smallest: what a merge needs least memory for. Empty where they do not fit into one.
std::vector<size_t> SmallestMerge(absl::Span<const int64_t> rows_live);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_MERGE_POLICY_H_

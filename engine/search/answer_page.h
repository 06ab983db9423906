// The rows of an order that a query asks for, and the copy of their data.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/snapshot.h"
#include "engine/search/merge_best.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// The requested page: rows [begin, end) of the order.
struct Page {
  int64_t begin = 0;
  int64_t end = 0;
  bool more = false;  // Neighbors::more
};

// Returns the page of a query whose order has `rows_of_order` rows, of which the first `known` are
// known. score_at(i): the score of row i of the order.
template <typename ScoreAt>
Page PageOf(const Query& query, int64_t known, int64_t rows_of_order, const ScoreAt& score_at) {
  const int64_t after = query.skip + query.k;
  Page page = {.begin = std::min(known, query.skip), .end = std::min(known, after)};
  if (!query.score_threshold) {
    page.more = query.tell_more && after < rows_of_order;
    return page;
  }
  const auto reaches = [&](int64_t row) { return score_at(row) >= *query.score_threshold; };
  page.more = query.tell_more && after < known && reaches(after);
  while (page.end > page.begin && !reaches(page.end - 1)) --page.end;
  return page;
}

// Copies ids, scores, payloads and ordinals of one answer.
void GatherOne(const corpus::Corpus& corpus, const corpus::CorpusSnapshot& snapshot,
               absl::Span<const Hit> hits, const RowParts& parts, Neighbors* neighbors);

}  // namespace nearfield

#include "engine/search/term_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/status_macros.h"
#include "engine/score/neighbor_order.h"
#include "engine/score/row_terms.h"

namespace nearfield {
namespace {

using backend::ScanCost;
using corpus::Corpus;
using corpus::CorpusSnapshot;
using corpus::SlotTerms;

// Rows whose largest sum of terms is computed at once.
constexpr int64_t kTileRows = 512;
// Rows that the first search takes at least: for terms that matter less than the scores, the answer
// is among them.
constexpr int32_t kFirstRowsMin = 256;

// The search of one query with terms.
class TermSearch {
 public:
  // search: of this query alone.
  TermSearch(const Corpus& corpus, const RowSearch& search)
      : corpus_(corpus),
        search_(search),
        snapshot_(search.snapshot()),
        terms_(*search.queries.terms.front()),
        k_(static_cast<size_t>(search.k.front())) {}

  absl::StatusOr<Hits> Run(ScanCost* cost) {
    ResolvedQueries queries = search_.queries;
    queries.terms.clear();
    corpus::SearchedRows rest = *search_.rows.front();
    const corpus::SearchedRows* const of_pass = &rest;
    const int32_t k_max = corpus_.device()->backend().info().k_max - 1;
    int32_t wanted = std::min(k_max, std::max(search_.k.front(), kFirstRowsMin));
    while (rest.rows_count() > 0) {
      const RowSearch pass = {.rows = absl::MakeConstSpan(&of_pass, 1),
                              .queries = queries,
                              .k = absl::MakeConstSpan(&wanted, 1),
                              .cancelled = search_.cancelled};
      ABSL_ASSIGN_OR_RETURN(const std::vector<Hits> found, SearchHits(corpus_, pass, cost));
      const Hits& hits = found.front();
      Take(hits);
      if (hits.size() < static_cast<size_t>(wanted)) break;  // no other row
      ABSL_RETURN_IF_ERROR(LeaveOut(hits.back().score));
      ABSL_ASSIGN_OR_RETURN(rest, WithoutRows(*corpus_.device(), *search_.rows.front(), left_out_));
      wanted = k_max;
    }
    return best_;
  }

 private:
  float Final(float s, double sum) const {
    return score::FinalScore(terms_.score_weight(), s, sum);
  }
  score::ScoredId ScoredIdOf(const Hit& hit) const {
    return {.score = hit.score,
            .ids = &snapshot_.generations[hit.row.generation].generation->ids,
            .index = hit.row.slot};
  }

  // Takes rows with their scores. Keeps the k best of all by final scores, in order.
  void Take(const Hits& hits) {
    for (const Hit& hit : hits) {
      left_out_.Add(snapshot_, hit.row);
      const double sum = terms_.SumOf(hit.row.generation, hit.row.slot);
      best_.push_back({.score = Final(hit.score, sum), .row = hit.row});
    }
    std::sort(best_.begin(), best_.end(), [this](const Hit& a, const Hit& b) {
      return score::ComesBefore(ScoredIdOf(a), ScoredIdOf(b));
    });
    if (best_.size() > k_) best_.resize(k_);
  }

  // Leaves out the rows that cannot be in the answer if their scores are at most s. A row whose
  // final score could equal the last of the answer stays: its id may be smaller.
  absl::Status LeaveOut(float s) {
    if (best_.size() < k_) return absl::OkStatus();
    const float floor = best_.back().score;
    for (size_t g = 0; g < snapshot_.generations.size(); ++g) {
      ABSL_RETURN_IF_ERROR(CheckCancelled(search_.cancelled));
      const int64_t rows_count = snapshot_.generations[g].generation->rows_count();
      for (int64_t begin = 0; begin < rows_count; begin += kTileRows) {
        const int64_t end = std::min(begin + kTileRows, rows_count);
        const bool all = Final(s, terms_.SumUpper(g, begin, end - begin)) < floor;
        for (int64_t slot = begin; slot < end; ++slot) {
          const corpus::RowRef row = {.generation = static_cast<uint32_t>(g),
                                      .slot = static_cast<uint32_t>(slot)};
          if (all || Final(s, terms_.SumOf(g, row.slot)) < floor) left_out_.Add(snapshot_, row);
        }
      }
    }
    return absl::OkStatus();
  }

  const Corpus& corpus_;
  const RowSearch& search_;
  const CorpusSnapshot& snapshot_;
  const SlotTerms& terms_;
  const size_t k_;
  Hits best_;                // by final scores, in order
  corpus::RowSet left_out_;  // rows taken, and rows that cannot be in the answer
};

}  // namespace

absl::StatusOr<std::vector<Hits>> SearchByScores(const Corpus& corpus, const RowSearch& search,
                                                 ScanCost* cost) {
  const auto dim = static_cast<size_t>(corpus.spec().dim);
  std::vector<Hits> answers(search.k.size());
  std::vector<size_t> plain;
  std::vector<int32_t> plain_k;
  std::vector<const corpus::SearchedRows*> plain_rows;
  for (size_t i = 0; i < search.k.size(); ++i) {
    if (search.queries.terms[i] == nullptr) {
      plain.push_back(i);
      plain_k.push_back(search.k[i]);
      plain_rows.push_back(search.rows[i]);
      continue;
    }
    const ResolvedQueries one = Pick(search.queries, {&i, 1}, dim);
    const RowSearch alone = {.rows = search.rows.subspan(i, 1),
                             .queries = one,
                             .k = search.k.subspan(i, 1),
                             .cancelled = search.cancelled};
    ABSL_ASSIGN_OR_RETURN(answers[i], TermSearch(corpus, alone).Run(cost));
  }
  if (plain.empty()) return answers;
  ResolvedQueries queries = Pick(search.queries, plain, dim);
  queries.terms.clear();
  const RowSearch together = {
      .rows = plain_rows, .queries = queries, .k = plain_k, .cancelled = search.cancelled};
  ABSL_ASSIGN_OR_RETURN(std::vector<Hits> hits, SearchHits(corpus, together, cost));
  for (size_t i = 0; i < plain.size(); ++i) answers[plain[i]] = std::move(hits[i]);
  return answers;
}

}  // namespace nearfield

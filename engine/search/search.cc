#include "engine/search/search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/search/answer_page.h"
#include "engine/search/resolve.h"
#include "engine/search/result_page_cache.h"
#include "engine/search/score_parts.h"
#include "engine/search/search_ids.h"
#include "engine/search/search_rows.h"

namespace nearfield {
namespace {

using backend::ScanCost;
using corpus::Corpus;
using corpus::CorpusSnapshot;
using corpus::Generation;
using corpus::RowCopy;
using corpus::RowRef;

// Bits of the rows that the filters of one search choose. With more, a batch has several parts.
constexpr int64_t kSelectionBytesMax = int64_t{256} << 20;

absl::Status CheckBatch(const SearchBatch& batch, int32_t batch_max) {
  if (batch.queries.empty() || batch.queries.size() > static_cast<size_t>(batch_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries: ", batch.queries.size(), " queries in a batch; 1 to ", batch_max));
  }
  return absl::OkStatus();
}

// Returns the number of rows that the next search requests, when the first `found` rows of the
// order are known and `missing` more are needed. A prefix is doubled, so that the pages of a search
// cost few scans even if they are small.
int64_t RowsAhead(const Query& query, int64_t found, int64_t missing) {
  if (query.page_cache == nullptr) return missing;
  const int64_t room = ResultPageCacheImpl::Of(query)->rows_max() - found;
  return std::max(missing, std::min(found, room));
}

// A query that needs more rows than one search finds. Borrowed for the call.
struct DeepSearch {
  const Corpus& corpus;
  const RowSearch& search;  // of this query only
  const Query& query;
  const int64_t rows_wanted;  // first rows of the order that must be known
  const int32_t k_max;
};

// Finds the first rows of one query's order, possibly more than requested. *known already holds
// some. Each search excludes the rows that earlier ones found. Stops early if the score of the last
// row found is below the minimum.
absl::Status SearchDeep(const DeepSearch& deep, KnownRows* known, ScanCost* cost) {
  const std::optional<float>& threshold = deep.query.score_threshold;
  const corpus::SearchedRows& rows = *deep.search.rows.front();
  while (!known->whole && known->count() < deep.rows_wanted) {
    if (threshold && !known->hits.empty() && known->hits.back().score < *threshold) break;
    known->MarkAll(*rows.snapshot);
    ABSL_ASSIGN_OR_RETURN(const corpus::SearchedRows rest,
                          WithoutRows(*deep.corpus.device(), rows, known->rows));
    const corpus::SearchedRows* const of_pass = &rest;
    const int64_t missing = deep.rows_wanted - known->count();
    const auto k = static_cast<int32_t>(
        std::min<int64_t>(deep.k_max, RowsAhead(deep.query, known->count(), missing)));
    const RowSearch pass = {.rows = absl::MakeConstSpan(&of_pass, 1),
                            .queries = deep.search.queries,
                            .k = absl::MakeConstSpan(&k, 1),
                            .cancelled = deep.search.cancelled};
    ABSL_ASSIGN_OR_RETURN(const std::vector<Hits> best, SearchHits(deep.corpus, pass, cost));
    // The order continues: the rows found before were excluded because they come first.
    DCHECK(known->hits.empty() || best.front().empty() ||
           known->hits.back().score >= best.front().front().score);
    known->hits.insert(known->hits.end(), best.front().begin(), best.front().end());
    known->whole = static_cast<int64_t>(best.front().size()) < k;
  }
  return absl::OkStatus();
}

// Returns a page of the known rows. Moves the rows out of *known if they belong to this query
// alone.
Hits Cut(KnownRows* known, const Query& query, const Page& page) {
  Hits& hits = known->hits;
  CHECK_GE(page.begin, known->begin);
  const auto begin = hits.begin() + (page.begin - known->begin);
  const auto end = hits.begin() + (page.end - known->begin);
  if (begin != hits.begin() || ResultPageCacheImpl::Of(query) != nullptr) return Hits(begin, end);
  hits.erase(end, hits.end());
  return std::move(hits);
}

struct Answers {
  std::vector<Hits> hits;             // one per query
  std::vector<int64_t> matched_rows;  // one per query
  std::vector<bool> more;             // one per query
};

// A batch over one snapshot, and the destination of its answers.
struct BatchTask {
  const Corpus& corpus;
  const std::shared_ptr<const CorpusSnapshot>& snapshot;
  const SearchBatch& batch;
  const int32_t k_max;
  ScanCost* const cost;
  Answers* const answers = nullptr;
};

// Answers one query from the rows that are `known`, and from further searches if it needs more.
absl::Status AnswerOne(const BatchTask& task, const RowSearch& search, size_t index, size_t place,
                       KnownRows* known) {
  const Query& query = task.batch.queries[place];
  const int64_t rows_of_order = search.RowsOfOrder(index);
  const int64_t wanted = std::min(query.rows_wanted(), rows_of_order);
  if (wanted > known->count() && wanted > query.skip && !known->whole) {
    const auto dim = static_cast<size_t>(task.corpus.spec().dim);
    const ResolvedQueries one = Pick(search.queries, {&index, 1}, dim);
    const RowSearch alone = {.rows = search.rows.subspan(index, 1),
                             .queries = one,
                             .k = {},
                             .cancelled = task.batch.cancelled};
    ABSL_RETURN_IF_ERROR(SearchDeep({.corpus = task.corpus,
                                     .search = alone,
                                     .query = query,
                                     .rows_wanted = wanted,
                                     .k_max = task.k_max},
                                    known, task.cost));
  }
  if (ResultPageCacheImpl::Of(query) != nullptr) known->DropBefore(*task.snapshot, query.skip);
  const Page page = PageOf(query, known->count(), rows_of_order, [&](int64_t row) {
    return known->hits[static_cast<size_t>(row - known->begin)].score;
  });
  task.answers->matched_rows[place] = rows_of_order;
  task.answers->more[place] = page.more;
  task.answers->hits[place] = Cut(known, query, page);
  return absl::OkStatus();
}

// Answers every query of a part of the batch in as few searches as possible: queries without known
// rows share the first search.
absl::Status SearchPart(const BatchTask& task, const RowSearch& search,
                        absl::Span<const size_t> places) {
  std::vector<int32_t> k;
  std::vector<size_t> fresh;  // among `places`
  std::vector<const corpus::SearchedRows*> fresh_rows;
  for (size_t i = 0; i < places.size(); ++i) {
    const Query& query = task.batch.queries[places[i]];
    ResultPageCacheImpl* const cache = ResultPageCacheImpl::Of(query);
    if (cache != nullptr && cache->Serves(task.snapshot, query.skip)) {
      ABSL_RETURN_IF_ERROR(AnswerOne(task, search, i, places[i], &cache->known()));
      continue;
    }
    k.push_back(static_cast<int32_t>(std::min<int64_t>(query.rows_wanted(), task.k_max)));
    fresh.push_back(i);
    fresh_rows.push_back(search.rows[i]);
  }
  if (fresh.empty()) return absl::OkStatus();
  const bool all = fresh.size() == places.size();
  ResolvedQueries picked;
  if (!all) picked = Pick(search.queries, fresh, static_cast<size_t>(task.corpus.spec().dim));
  const RowSearch shallow = {.rows = fresh_rows,
                             .queries = all ? search.queries : picked,
                             .k = k,
                             .cancelled = search.cancelled};
  ABSL_ASSIGN_OR_RETURN(std::vector<Hits> hits, SearchHits(task.corpus, shallow, task.cost));
  for (size_t i = 0; i < fresh.size(); ++i) {
    const size_t place = places[fresh[i]];
    const bool whole = hits[i].size() < static_cast<size_t>(k[i]);
    KnownRows known;
    known.hits = std::move(hits[i]);
    known.whole = whole;
    KnownRows* of_query = &known;
    if (ResultPageCacheImpl* const cache = ResultPageCacheImpl::Of(task.batch.queries[place])) {
      cache->Begin(task.snapshot, std::move(known));
      of_query = &cache->known();
    }
    ABSL_RETURN_IF_ERROR(AnswerOne(task, search, fresh[i], place, of_query));
  }
  return absl::OkStatus();
}

// The rows of some queries.
struct RowsOfQueries {
  std::deque<corpus::SearchedRows> chosen;  // by each filter
  std::vector<const corpus::SearchedRows*> of_query;
};

// Adds to *rows the rows of the first queries, for as many as the device holds the choices of their
// filters at once: at least one.
absl::Status SelectRowsOfSome(const Corpus& corpus,
                              const std::shared_ptr<const CorpusSnapshot>& snapshot,
                              absl::Span<const Query> queries, RowsOfQueries* rows) {
  std::unordered_map<const RowFilter*, const corpus::SearchedRows*> known;
  int64_t bytes = 0;
  const RowFilter* last = nullptr;
  for (const Query& query : queries) {
    if (!rows->of_query.empty() && query.filter.get() == last) {
      rows->of_query.push_back(rows->of_query.back());
      continue;
    }
    last = query.filter.get();
    const auto [place, is_new] = known.try_emplace(last);
    if (is_new) {
      if (last != nullptr) bytes += corpus::SelectionBytes(*snapshot);
      if (bytes > kSelectionBytesMax && known.size() > 1) return absl::OkStatus();
      absl::StatusOr<corpus::SearchedRows> chosen = corpus.Searched(snapshot, query.filter);
      // The choices of the queries before are released after their search.
      if (absl::IsResourceExhausted(chosen.status()) && known.size() > 1) return absl::OkStatus();
      if (!chosen.ok()) return chosen.status();
      place->second = &rows->chosen.emplace_back(*std::move(chosen));
    }
    rows->of_query.push_back(place->second);
  }
  return absl::OkStatus();
}

// Calls answer(search, places) for each part of the batch: for the queries at these places. All
// queries are one part, unless they have more filters than the device has memory for.
absl::Status ForEachPart(
    const Corpus& corpus, const std::shared_ptr<const CorpusSnapshot>& snapshot,
    const SearchBatch& batch, const ResolvedQueries& resolved,
    absl::FunctionRef<absl::Status(const RowSearch&, absl::Span<const size_t>)> answer) {
  const absl::Span<const Query> queries = batch.queries;
  std::vector<size_t> places(queries.size());
  std::iota(places.begin(), places.end(), size_t{0});
  for (size_t begin = 0; begin < queries.size();) {
    RowsOfQueries rows;
    rows.of_query.reserve(queries.size() - begin);
    ABSL_RETURN_IF_ERROR(SelectRowsOfSome(corpus, snapshot, queries.subspan(begin), &rows));
    const auto part = absl::MakeConstSpan(places).subspan(begin, rows.of_query.size());
    begin += part.size();
    const bool all = part.size() == queries.size();
    ResolvedQueries picked;
    if (!all) picked = Pick(resolved, part, static_cast<size_t>(corpus.spec().dim));
    const RowSearch search = {
        .rows = rows.of_query, .queries = all ? resolved : picked, .cancelled = batch.cancelled};
    ABSL_RETURN_IF_ERROR(answer(search, part));
  }
  return absl::OkStatus();
}

// Refuses before anything is copied: payloads may be large, and the answers of a batch may contain
// each of them many times.
absl::Status CheckResultBytes(const Corpus& corpus, const CorpusSnapshot& snapshot,
                              const std::vector<Hits>& answers, const RowParts& parts) {
  if (parts.bytes_max == 0) return absl::OkStatus();
  int64_t bytes = 0;
  for (const Hits& hits : answers) {
    for (const Hit& hit : hits) {
      bytes += corpus::PartBytes(snapshot, hit.row, corpus.row_bytes(), parts);
    }
  }
  return corpus::CheckPartBytes(bytes, parts);
}

// Converts rows to the requested results; copies the stored vectors of the whole batch in one call.
absl::StatusOr<std::vector<Neighbors>> Gather(const Corpus& corpus, const CorpusSnapshot& snapshot,
                                              const std::vector<Hits>& answers, RowParts parts) {
  const auto row_size = static_cast<size_t>(corpus.row_bytes());
  std::vector<Neighbors> queries(answers.size());
  int64_t rows_count = 0;
  for (const Hits& hits : answers) rows_count += static_cast<int64_t>(hits.size());
  ABSL_RETURN_IF_ERROR(corpus.device()->host_work().ParallelFor(
      static_cast<int64_t>(answers.size()), rows_count * kBytesPerHit, [&](int64_t q) {
        const auto query = static_cast<size_t>(q);
        GatherOne(corpus, snapshot, answers[query], parts, &queries[query]);
        return absl::OkStatus();
      }));
  if (!parts.vectors) return queries;
  std::vector<RowCopy> copies;
  for (size_t q = 0; q < answers.size(); ++q) {
    queries[q].rows.resize(answers[q].size() * row_size);
    for (size_t i = 0; i < answers[q].size(); ++i) {
      copies.push_back({.row = answers[q][i].row, .to = queries[q].rows.data() + i * row_size});
    }
  }
  ABSL_RETURN_IF_ERROR(corpus::ReadRows(snapshot, copies, corpus.row_bytes()));
  return queries;
}

// Fills in the parts of the scores of the queries that ask for them.
absl::Status TellParts(const BatchTask& task, const ResolvedQueries& resolved,
                       const std::vector<Hits>& hits, std::vector<Neighbors>* queries) {
  const auto dim = static_cast<size_t>(task.corpus.spec().dim);
  for (size_t q = 0; q < queries->size(); ++q) {
    if (!task.batch.queries[q].tell_parts) continue;
    ABSL_RETURN_IF_ERROR(CheckCancelled(task.batch.cancelled));
    const ExplainedAnswer answer = {
        .query = resolved.vectors.subspan(q * dim, dim),
        .terms = resolved.terms.empty() ? nullptr : resolved.terms[q].get(),
        .hits = hits[q]};
    ABSL_RETURN_IF_ERROR(FillScoreParts(task.corpus, *task.snapshot, answer, &(*queries)[q]));
  }
  return absl::OkStatus();
}

// Answers a batch whose answers need more of their rows than ids. task.answers is not read.
absl::StatusOr<std::vector<Neighbors>> SearchParts(const BatchTask& task,
                                                   const ResolvedQueries& resolved) {
  const SearchBatch& batch = task.batch;
  Answers answers;
  answers.hits.resize(batch.queries.size());
  answers.matched_rows.resize(batch.queries.size());
  answers.more.resize(batch.queries.size());
  const BatchTask to = {task.corpus, task.snapshot, batch, task.k_max, task.cost, &answers};
  ABSL_RETURN_IF_ERROR(ForEachPart(task.corpus, task.snapshot, batch, resolved,
                                   [&](const RowSearch& search, absl::Span<const size_t> places) {
                                     return SearchPart(to, search, places);
                                   }));
  ABSL_RETURN_IF_ERROR(CheckCancelled(batch.cancelled));
  ABSL_RETURN_IF_ERROR(CheckResultBytes(task.corpus, *task.snapshot, answers.hits, batch.parts));
  ABSL_ASSIGN_OR_RETURN(std::vector<Neighbors> queries,
                        Gather(task.corpus, *task.snapshot, answers.hits, batch.parts));
  ABSL_RETURN_IF_ERROR(TellParts(task, resolved, answers.hits, &queries));
  for (size_t q = 0; q < queries.size(); ++q) {
    queries[q].matched_rows = answers.matched_rows[q];
    queries[q].more = answers.more[q];
  }
  return queries;
}

}  // namespace

void KnownRows::MarkAll(const CorpusSnapshot& snapshot) {
  CHECK_GE(marked, begin);
  for (; marked < count(); ++marked) {
    rows.Add(snapshot, hits[static_cast<size_t>(marked - begin)].row);
  }
}

void KnownRows::DropBefore(const CorpusSnapshot& snapshot, int64_t place) {
  MarkAll(snapshot);
  const int64_t dropped = std::clamp<int64_t>(place - begin, 0, count() - begin);
  hits.erase(hits.begin(), hits.begin() + dropped);
  begin += dropped;
}

std::shared_ptr<ResultPageCache> MakeResultPageCache(int64_t rows_max) {
  return std::make_shared<ResultPageCacheImpl>(rows_max);
}

SearchCost CostOf(const Corpus& corpus, const CorpusSnapshot& snapshot,
                  const FinishedBatch& batch) {
  const ScanCost& scan = batch.scan;
  const auto elapsed = std::chrono::steady_clock::now() - batch.begin;
  return {.device_us = scan.device_us,
          .total_us = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count(),
          .rows_scanned = snapshot.rows_live(),
          .candidates = scan.candidates,
          .bytes_read = scan.bytes_read,
          .backend = corpus.device()->backend().info().kind,
          .precision = 2 * scan.queries_of_codes > batch.queries_count ? corpus.format().scan
                                                                       : ScanPrecision::kRows,
          .escalations = scan.escalations};
}

absl::StatusOr<SearchResult> SearchCorpus(const Corpus& corpus, const SearchLimits& limits,
                                          const SearchBatch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  ABSL_RETURN_IF_ERROR(CheckBatch(batch, limits.batch_max));
  ABSL_RETURN_IF_ERROR(CheckCancelled(batch.cancelled));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot,
                        corpus.At(batch.at.get()));
  ABSL_ASSIGN_OR_RETURN(const ResolvedQueries resolved,
                        ResolveQueries(corpus, *snapshot, batch.queries, limits.k_max));
  ScanCost cost;
  SearchResult result;
  result.epoch = snapshot->epoch;
  if (IdsAreEnough(corpus.spec(), batch, limits.k_max)) {
    ABSL_RETURN_IF_ERROR(ForEachPart(corpus, snapshot, batch, resolved,
                                     [&](const RowSearch& search, absl::Span<const size_t> at) {
                                       return SearchIds(corpus, search, batch.queries, at, &cost,
                                                        &result.queries);
                                     }));
    ABSL_RETURN_IF_ERROR(CheckCancelled(batch.cancelled));
  } else {
    ABSL_ASSIGN_OR_RETURN(result.queries,
                          SearchParts({corpus, snapshot, batch, limits.k_max, &cost}, resolved));
  }
  result.cost = CostOf(
      corpus, *snapshot,
      {.scan = cost, .queries_count = static_cast<int64_t>(batch.queries.size()), .begin = begin});
  return result;
}

}  // namespace nearfield

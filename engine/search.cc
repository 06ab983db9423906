#include "engine/search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/order_prefix.h"
#include "engine/resolve.h"
#include "engine/search_rows.h"

namespace nearfield {
namespace {

using corpus::Corpus;
using corpus::CorpusSnapshot;
using corpus::Generation;
using corpus::RowCopy;
using corpus::RowRef;
using corpus::ScanCost;

absl::Status CheckCancelled(const SearchBatch& batch) {
  if (batch.cancelled && batch.cancelled()) return absl::CancelledError("the search was cancelled");
  return absl::OkStatus();
}

absl::Status CheckBatch(const SearchBatch& batch, int32_t batch_max) {
  if (batch.queries.empty() || batch.queries.size() > static_cast<size_t>(batch_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries: ", batch.queries.size(), " queries in a batch; 1 to ", batch_max));
  }
  return absl::OkStatus();
}

// Queries of a batch that share a filter, by their places.
struct Group {
  std::shared_ptr<const RowFilter> filter;
  std::vector<size_t> places;
};

std::vector<Group> GroupByFilter(absl::Span<const Query> queries) {
  std::vector<Group> groups;
  for (size_t i = 0; i < queries.size(); ++i) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& known) {
      return known.filter == queries[i].filter;
    });
    if (group != groups.end()) {
      group->places.push_back(i);
    } else {
      groups.push_back({.filter = queries[i].filter, .places = {i}});
    }
  }
  return groups;
}

// The queries at `places`, in that order.
ResolvedQueries Pick(const ResolvedQueries& all, absl::Span<const size_t> places, size_t dim) {
  ResolvedQueries picked;
  picked.copies.reset(new float[places.size() * dim]);
  picked.vectors = {picked.copies.get(), places.size() * dim};
  float* to = picked.copies.get();
  for (const size_t place : places) {
    to = std::copy_n(all.vectors.data() + place * dim, dim, to);
    picked.k.push_back(all.k[place]);
    picked.self.push_back(all.self[place]);
  }
  return picked;
}

// How many rows the next search behind the `found` first ones asks for, of `missing` that must
// come. A prefix is doubled, so that the pages of a search cost few scans, however small they are.
int64_t RowsAhead(const Query& query, int64_t found, int64_t missing) {
  if (query.prefix == nullptr) return missing;
  const int64_t room = HeldPrefix::Of(query)->rows_max() - found;
  return std::max(missing, std::min(found, room));
}

// The first skip + k rows of one query's order, and perhaps more, of which *known holds the first:
// more than one search finds. Each further search leaves out what the earlier ones found.
absl::Status SearchDeep(const Corpus& corpus, const RowSearch& search, const Query& query,
                        KnownRows* known, ScanCost* cost) {
  Hits& found = known->hits;
  const int64_t k_max = search.k.front();
  const auto wanted = static_cast<size_t>(std::min(query.skip + query.k, search.rows.rows_count()));
  if (static_cast<size_t>(query.skip) >= wanted) return absl::OkStatus();
  std::vector<RowRef> seen;
  while (!known->whole && found.size() < wanted) {
    if (query.score_min && found.back().score < *query.score_min) break;
    for (size_t i = seen.size(); i < found.size(); ++i) seen.push_back(found[i].row);
    ABSL_ASSIGN_OR_RETURN(const corpus::SearchedRows rest,
                          WithoutRows(*corpus.device(), search.rows, seen));
    const auto count = static_cast<int64_t>(found.size());
    const int64_t missing = static_cast<int64_t>(wanted) - count;
    const auto k = static_cast<int32_t>(std::min(k_max, RowsAhead(query, count, missing)));
    const RowSearch pass = {.rows = rest,
                            .queries = search.queries,
                            .k = absl::MakeConstSpan(&k, 1),
                            .cancelled = search.cancelled};
    ABSL_ASSIGN_OR_RETURN(const std::vector<Hits> best, SearchRows(corpus, pass, cost));
    found.insert(found.end(), best.front().begin(), best.front().end());
    known->whole = static_cast<int64_t>(best.front().size()) < k;
  }
  return absl::OkStatus();
}

// What the query asks for of the rows that come first in its order: those rows themselves where
// they are the query's alone.
Hits Cut(KnownRows* known, const Query& query) {
  Hits& hits = known->hits;
  const auto count = static_cast<int64_t>(hits.size());
  const auto begin = hits.begin() + std::min(count, query.skip);
  auto end = hits.begin() + std::min(count, query.skip + query.k);
  if (query.score_min) {
    while (end != begin && std::prev(end)->score < *query.score_min) --end;
  }
  if (begin != hits.begin() || HeldPrefix::Of(query) != nullptr) return Hits(begin, end);
  hits.erase(end, hits.end());
  return std::move(hits);
}

struct Answers {
  std::vector<Hits> hits;             // one a query
  std::vector<int64_t> rows_matched;  // one a query
};

// Queries that share the rows they are searched over, and where their answers go.
struct GroupSearch {
  const Corpus& corpus;
  const std::shared_ptr<const CorpusSnapshot>& snapshot;
  const SearchBatch& batch;
  const int32_t k_max;
  ScanCost* const cost;
  Answers* const answers;
};

// Rows of the order from its first one on: those that are `known`, and further searches for more.
absl::Status AnswerOne(const GroupSearch& group, const RowSearch& search, size_t index,
                       size_t place, KnownRows* known) {
  const Query& query = group.batch.queries[place];
  if (query.skip + query.k > static_cast<int64_t>(known->hits.size()) && !known->whole) {
    const auto dim = static_cast<size_t>(group.corpus.spec().dim);
    const ResolvedQueries one = Pick(search.queries, {&index, 1}, dim);
    const RowSearch deep = {.rows = search.rows,
                            .queries = one,
                            .k = absl::MakeConstSpan(&group.k_max, 1),
                            .cancelled = group.batch.cancelled};
    ABSL_RETURN_IF_ERROR(SearchDeep(group.corpus, deep, query, known, group.cost));
  }
  group.answers->hits[place] = Cut(known, query);
  group.answers->rows_matched[place] = search.rows.rows_count();
  return absl::OkStatus();
}

// Every query of a group, in as few searches as there can be: first those of which nothing is
// known, together.
absl::Status SearchGroup(const GroupSearch& group, const RowSearch& search,
                         absl::Span<const size_t> places) {
  std::vector<int32_t> k;
  std::vector<size_t> fresh;  // among `places`
  for (size_t i = 0; i < places.size(); ++i) {
    const Query& query = group.batch.queries[places[i]];
    HeldPrefix* const prefix = HeldPrefix::Of(query);
    if (prefix != nullptr && prefix->rows_count() > 0 && prefix->IsOf(group.snapshot)) {
      ABSL_RETURN_IF_ERROR(AnswerOne(group, search, i, places[i], &prefix->known()));
      continue;
    }
    k.push_back(static_cast<int32_t>(std::min<int64_t>(query.skip + query.k, group.k_max)));
    fresh.push_back(i);
  }
  if (fresh.empty()) return absl::OkStatus();
  const bool all = fresh.size() == places.size();
  ResolvedQueries picked;
  if (!all) picked = Pick(search.queries, fresh, static_cast<size_t>(group.corpus.spec().dim));
  const RowSearch shallow = {.rows = search.rows,
                             .queries = all ? search.queries : picked,
                             .k = k,
                             .cancelled = search.cancelled};
  ABSL_ASSIGN_OR_RETURN(std::vector<Hits> hits, SearchRows(group.corpus, shallow, group.cost));
  for (size_t i = 0; i < fresh.size(); ++i) {
    const size_t place = places[fresh[i]];
    const bool whole = hits[i].size() < static_cast<size_t>(k[i]);
    KnownRows known = {.hits = std::move(hits[i]), .whole = whole};
    KnownRows* of_query = &known;
    if (HeldPrefix* const prefix = HeldPrefix::Of(group.batch.queries[place])) {
      prefix->Begin(group.snapshot, std::move(known));
      of_query = &prefix->known();
    }
    ABSL_RETURN_IF_ERROR(AnswerOne(group, search, fresh[i], place, of_query));
  }
  return absl::OkStatus();
}

absl::StatusOr<Answers> SearchGroups(const Corpus& corpus,
                                     const std::shared_ptr<const CorpusSnapshot>& snapshot,
                                     const SearchBatch& batch, const ResolvedQueries& resolved,
                                     int32_t k_max, ScanCost* cost) {
  Answers answers;
  answers.hits.resize(batch.queries.size());
  answers.rows_matched.resize(batch.queries.size());
  const GroupSearch to = {corpus, snapshot, batch, k_max, cost, &answers};
  for (const Group& group : GroupByFilter(batch.queries)) {
    ABSL_ASSIGN_OR_RETURN(const corpus::SearchedRows rows, corpus.Searched(snapshot, group.filter));
    const bool all = group.places.size() == batch.queries.size();
    ResolvedQueries picked;
    if (!all) picked = Pick(resolved, group.places, static_cast<size_t>(corpus.spec().dim));
    const RowSearch search = {
        .rows = rows, .queries = all ? resolved : picked, .k = {}, .cancelled = batch.cancelled};
    ABSL_RETURN_IF_ERROR(SearchGroup(to, search, group.places));
  }
  return answers;
}

// Refuses before anything is copied: payloads may be large, and a batch may name each many times.
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

// Ids, scores and payloads of one answer.
void GatherOne(const Corpus& corpus, const CorpusSnapshot& snapshot, const Hits& hits,
               const RowParts& parts, Neighbors* neighbors) {
  neighbors->ids = IdColumn(corpus.spec().id_type);
  neighbors->ids.Reserve(static_cast<int64_t>(hits.size()));
  neighbors->scores.reserve(hits.size());
  for (size_t i = 0; i < hits.size(); ++i) {
    if (i + kRowsAhead < hits.size()) {
      const RowRef& later = hits[i + kRowsAhead].row;
      snapshot.generations[later.generation].generation->ids.Prefetch(later.slot);
    }
    const RowRef& row = hits[i].row;
    const Generation& generation = *snapshot.generations[row.generation].generation;
    neighbors->ids.AppendFrom(generation.ids, row.slot);
    neighbors->scores.push_back(hits[i].score);
    if (parts.payloads) neighbors->payloads.Append(generation.payload(row.slot));
  }
}

// From rows to what the caller asked for; stored vectors for the whole batch at once.
absl::StatusOr<std::vector<Neighbors>> Gather(const Corpus& corpus, const CorpusSnapshot& snapshot,
                                              const std::vector<Hits>& answers, RowParts parts) {
  const auto row_size = static_cast<size_t>(corpus.row_bytes());
  std::vector<Neighbors> queries(answers.size());
  int64_t rows_count = 0;
  for (const Hits& hits : answers) rows_count += static_cast<int64_t>(hits.size());
  ABSL_RETURN_IF_ERROR(corpus.device()->host_work().Spread(
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

}  // namespace

std::shared_ptr<OrderPrefix> MakeOrderPrefix(int64_t rows_max) {
  return std::make_shared<HeldPrefix>(rows_max);
}

absl::StatusOr<SearchResult> SearchCorpus(const Corpus& corpus, const SearchLimits& limits,
                                          const SearchBatch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  ABSL_RETURN_IF_ERROR(CheckBatch(batch, limits.batch_max));
  ABSL_RETURN_IF_ERROR(CheckCancelled(batch));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot,
                        corpus.At(batch.at.get()));
  ABSL_ASSIGN_OR_RETURN(const ResolvedQueries resolved,
                        ResolveQueries(corpus, *snapshot, batch.queries, limits.k_max));
  ScanCost cost;
  ABSL_ASSIGN_OR_RETURN(const Answers answers,
                        SearchGroups(corpus, snapshot, batch, resolved, limits.k_max, &cost));

  SearchResult result;
  result.epoch = snapshot->epoch;
  ABSL_RETURN_IF_ERROR(CheckCancelled(batch));
  ABSL_RETURN_IF_ERROR(CheckResultBytes(corpus, *snapshot, answers.hits, batch.parts));
  ABSL_ASSIGN_OR_RETURN(result.queries, Gather(corpus, *snapshot, answers.hits, batch.parts));
  for (size_t q = 0; q < result.queries.size(); ++q) {
    result.queries[q].rows_matched = answers.rows_matched[q];
  }
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  result.cost = {.device_us = cost.device_us,
                 .total_us = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count(),
                 .rows_scanned = snapshot->rows_live(),
                 .candidates = cost.candidates,
                 .bytes_read = cost.bytes_read,
                 .backend = corpus.device()->backend().facts().kind,
                 .precision = 2 * cost.queries_of_codes > static_cast<int64_t>(batch.queries.size())
                                  ? corpus.format().scan
                                  : ScanPrecision::kRows,
                 .escalations = cost.escalations};
  return result;
}

}  // namespace nearfield

#include "server/rpc/reaching_rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/retrieval.h"
#include "server/rpc/search_facts.h"

namespace nearfield::server {
namespace {

void Choose(uint32_t ordinal, RowFilter* rows) {
  const size_t word = ordinal / 64;
  if (word >= rows->chosen.size()) rows->chosen.resize(word + 1);
  rows->chosen[word] |= uint64_t{1} << (ordinal % 64);
}

absl::Status TooManyRows(const ReachingRows& rows) {
  const float threshold = *rows.search.queries.front().score_threshold;
  return absl::ResourceExhaustedError(
      absl::StrCat("score_threshold: more than ", rows.limits.page_rows_max, " rows reach ",
                   threshold, ", the limit page_rows_max is ", rows.limits.page_rows_max,
                   ": use a higher threshold or a filter"));
}

void ScanOnce(const std::shared_ptr<ReachingRows>& rows, std::function<void(absl::Status)> done);

// Adds the rows of one scan. The next one begins after them.
void TakeScan(const std::shared_ptr<ReachingRows>& rows, absl::StatusOr<SearchReply> answer,
              std::function<void(absl::Status)> done) {
  if (!answer.ok()) return done(answer.status());
  SearchFacts facts;
  NoteReply(*answer, &facts);
  Note(facts, rows->record);
  const Neighbors& neighbors = answer->result.queries.front();
  for (const uint32_t ordinal : neighbors.ordinals) Choose(ordinal, &rows->found);
  rows->rows_count += static_cast<int64_t>(neighbors.ordinals.size());
  if (!neighbors.more) return done(absl::OkStatus());
  if (rows->rows_count >= rows->limits.page_rows_max) return done(TooManyRows(*rows));
  ScanOnce(rows, std::move(done));
}

void ScanOnce(const std::shared_ptr<ReachingRows>& rows, std::function<void(absl::Status)> done) {
  SearchRequest scan = rows->search.Copy();
  Query& query = scan.queries.front();
  query.skip = rows->rows_count;
  const int64_t left = rows->limits.page_rows_max - rows->rows_count;
  query.k = static_cast<int32_t>(std::min(rows->limits.k_max, left));
  rows->rounds.Start(std::move(scan),
                     [rows, done = std::move(done)](absl::StatusOr<SearchReply> answer) mutable {
                       TakeScan(rows, std::move(answer), std::move(done));
                     });
}

}  // namespace

void FindReachingRows(const std::shared_ptr<ReachingRows>& rows,
                      std::function<void(absl::Status)> done) {
  // One bit for each row, here and in the cache, and the last rows of the cache (ResultPageCache).
  constexpr int64_t kCachedRowBytes = 12;
  const int64_t bits_bytes = 2 * (rows->search.at->rows_count() + 7) / 8;
  Query& query = rows->search.queries.front();
  query.k = static_cast<int32_t>(rows->limits.k_max);
  const absl::Status reserved = rows->hold->Grow(
      rows->hold->bytes() + rows->search.bytes() + bits_bytes +
      4 * rows->limits.k_max * kCachedRowBytes + ReplyBytesExpected(rows->search, rows->limits));
  if (!reserved.ok()) return done(reserved);
  query.tell_more = true;
  query.page_cache = MakeResultPageCache(rows->limits.page_rows_max);
  rows->search.parts = {.ordinals = true};
  ScanOnce(rows, std::move(done));
}

}  // namespace nearfield::server

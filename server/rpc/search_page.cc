#include "server/rpc/search_page.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/rpc/kept_epoch.h"

namespace nearfield::server {

absl::Status SearchPage::CheckCursor(const pb::SearchRequest& request) const {
  if (cursor_->search_fingerprint != fingerprints_.front()) {
    return ArgumentError(
        "cursor",
        "of another search: collection, query, filter, terms, score_threshold and group_by must be "
        "those of the first page, and a collection that was created again or restored is another "
        "one");
  }
  ABSL_RETURN_IF_ERROR(CheckCursorEpoch(EpochsOf(request), cursor_->epoch));
  if (rows_max_.has_value() && cursor_->position >= *rows_max_) {
    return ArgumentError(
        "cursor",
        absl::StrCat("after ", cursor_->position, request.has_group_by() ? " groups" : " rows",
                     ", the limit page_rows_max is ", *rows_max_,
                     request.has_group_by() ? "" : ": SearchAll continues there"),
        absl::StrCat(cursor_->position), absl::StrCat(*rows_max_));
  }
  return absl::OkStatus();
}

absl::Status SearchPage::Begin(const pb::SearchRequest& request, uint64_t incarnation,
                               const SearchOrder& order, std::optional<int64_t> rows_max,
                               const std::shared_ptr<ResultPageCache>& cache,
                               std::vector<Query>* queries) {
  if (!request.with_cursor() && !request.has_cursor()) return absl::OkStatus();
  rows_max_ = rows_max;
  for (const Query& query : *queries) {
    fingerprints_.push_back(SearchFingerprint(incarnation, query, order));
  }
  if (request.has_cursor()) {
    if (queries->size() != 1) {
      return ArgumentError("queries", absl::StrCat(queries->size(), ", must be 1 with a cursor"),
                           absl::StrCat(queries->size()), "1");
    }
    ABSL_ASSIGN_OR_RETURN(cursor_, DecodeCursor(request.cursor()));
    ABSL_RETURN_IF_ERROR(CheckCursor(request));
    position_ = cursor_->position;
  }
  for (Query& query : *queries) {
    query.skip = position_;
    query.page_cache = cache;
    query.tell_more = true;
    if (!rows_max_.has_value()) continue;
    query.k = static_cast<int32_t>(std::min<int64_t>(query.k, *rows_max_ - position_));
  }
  return absl::OkStatus();
}

std::optional<uint64_t> SearchPage::epoch() const {
  return cursor_.has_value() ? std::optional(cursor_->epoch) : std::nullopt;
}

std::vector<NextPage> SearchPage::Next(const SearchReply& reply,
                                       const std::vector<GroupColumn>& groups) const {
  std::vector<NextPage> pages(fingerprints_.size());
  for (size_t i = 0; i < pages.size(); ++i) {
    const Neighbors& neighbors = reply.result.queries[i];
    if (!neighbors.more) continue;
    const size_t shown = groups.empty() ? neighbors.scores.size() : groups[i].rows_counts.size();
    const int64_t position = position_ + static_cast<int64_t>(shown);
    pages[i].cut = rows_max_.has_value() && position >= *rows_max_;
    if (pages[i].cut) continue;
    pages[i].cursor = EncodeCursor({.epoch = reply.result.epoch,
                                    .position = position,
                                    .search_fingerprint = fingerprints_[i]});
  }
  return pages;
}

}  // namespace nearfield::server

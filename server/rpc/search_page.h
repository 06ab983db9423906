// SearchPage: where the rows of a search with a cursor begin, and where those of its next page do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/found_groups.h"
#include "server/convert/cursor.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// The rows that follow those of one result.
struct NextPage {
  std::string cursor;  // empty: no row follows, or `cut`
  bool cut = false;    // rows follow, but page_rows_max ends the pages here
};

// Does nothing for a search without a cursor. The places of a search for groups are groups, not
// rows.
class SearchPage {
 public:
  // Reads the cursor of `request`, and makes the queries begin after its place. `rows_max`:
  // page_rows_max; absent: the pages of a stream, to which it does not apply. `cache`: the state
  // that the pages share. Errors: InvalidArgument.
  absl::Status Begin(const nearfield::v1::SearchRequest& request, uint64_t incarnation,
                     const SearchOrder& order, std::optional<int64_t> rows_max,
                     const std::shared_ptr<ResultPageCache>& cache, std::vector<Query>* queries);

  // Returns the epoch of the cursor; nullopt if the search begins at the first row.
  std::optional<uint64_t> epoch() const;

  // Returns what follows each result; empty for a search without a cursor. `groups`: those of each
  // result; empty for a search for rows.
  std::vector<NextPage> Next(const SearchReply& reply,
                             const std::vector<GroupColumn>& groups) const;

 private:
  absl::Status CheckCursor(const nearfield::v1::SearchRequest& request) const;

  std::optional<Cursor> cursor_;
  std::optional<int64_t> rows_max_;
  std::vector<uint64_t> fingerprints_;  // one for each query; none for a search without a cursor
  int64_t position_ = 0;                // rows of the order before the answer
};

}  // namespace nearfield::server

#include "client/cli/checked_search.h"

#include <utility>

#include "client/cpp/status_macros.h"

namespace nearfield::client {
namespace {

constexpr int kTriesMax = 5;  // bounds the tries if the collection changes all the time

}  // namespace

absl::StatusOr<VerifyAnswer> CheckAnswer(Client& client, std::string_view collection,
                                         const Query& query, const SearchOptions& options,
                                         QueryAnswer* answer) {
  for (int tries = 1;; ++tries) {
    absl::StatusOr<VerifyAnswer> check = client.Verify(collection, query,
                                                       {.k = options.k,
                                                        .epoch = answer->epoch,
                                                        .neighbors = &answer->neighbors,
                                                        .filter = options.filter,
                                                        .terms = options.terms,
                                                        .score_threshold = options.score_threshold},
                                                       {.deadline = options.deadline});
    const bool moved_on = check.status().code() == absl::StatusCode::kFailedPrecondition;
    if (!moved_on || tries == kTriesMax) return check;
    NF_ASSIGN_OR_RETURN(SearchAnswer again,
                        client.Search(collection, std::span<const Query>(&query, 1), options));
    answer->epoch = again.epoch;
    answer->neighbors = std::move(again.results[0]);
  }
}

}  // namespace nearfield::client

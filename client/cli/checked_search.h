// A search whose answer the server's oracle checks.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/cli/query_answer.h"
#include "nearfield/client/client.h"

namespace nearfield::client {

// Checks the answer. If the collection has a newer epoch than the answer, searches again, replaces
// the answer, and checks the new one.
absl::StatusOr<VerifyAnswer> CheckAnswer(Client& client, std::string_view collection,
                                         const Query& query, const SearchOptions& options,
                                         QueryAnswer* answer);

}  // namespace nearfield::client

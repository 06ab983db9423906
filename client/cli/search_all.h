// nearfield search --all: one search, printed page by page.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/command.h"
#include "client/cli/search_output.h"

namespace nearfield::client {

struct SearchAllJob {
  std::string_view collection;
  Query query;
  SearchAllOptions options;
  uint64_t query_number = 0;
  std::string label;  // "query 3"
};

// Prints the pages of one search as they arrive. Reports a failure, and how to continue after it.
// Returns the exit code.
absl::StatusOr<int> PrintAllPages(Client& client, const GlobalOptions& global,
                                  const SearchAllJob& job, const SearchOutputOptions& output);

}  // namespace nearfield::client

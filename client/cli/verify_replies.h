// nearfield verify --replies: checks a log of replies with the server's oracle.
#pragma once

#include <string>

#include "client/cli/command.h"

namespace nearfield::client {

// Calls Admin.Verify for every line, at its own epoch, and prints the differences and a summary. An
// answer of another epoch than the collection's current one cannot be checked: it is neither right
// nor wrong. Returns the exit code: kExitNegative for a difference, a damaged line, or if nothing
// could be checked.
absl::StatusOr<int> VerifyReplies(const GlobalOptions& global, const std::string& path);

}  // namespace nearfield::client

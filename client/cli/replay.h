// nearfield verify --replay: checks an audit record again.
#pragma once

#include <string>

#include "client/cli/command.h"

namespace nearfield::client {

// Replays the record from its own rows if it contains them, without a server; else asks the server,
// at the record's epoch. Returns the exit code: kExitNegative if the answer or row is confirmed to
// be wrong, or if that cannot be decided.
absl::StatusOr<int> ReplayRecord(const GlobalOptions& global, const std::string& path);

}  // namespace nearfield::client

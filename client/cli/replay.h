// nearfield verify --replay: checks an audit record again.
#ifndef NEARFIELD_CLIENT_CLI_REPLAY_H_
#define NEARFIELD_CLIENT_CLI_REPLAY_H_

#include <string>

#include "client/cli/command.h"

namespace nearfield::client {

// Replays the record from its own rows if it contains them, without a server; else asks the server,
// at the record's epoch. Returns the exit code: kExitNegative if the answer or row is confirmed to
// be wrong, or if that cannot be decided.
int ReplayRecord(const GlobalOptions& global, const std::string& path);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_REPLAY_H_

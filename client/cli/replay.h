// nearfield verify --replay: an audit record once more.
#ifndef NEARFIELD_CLIENT_CLI_REPLAY_H_
#define NEARFIELD_CLIENT_CLI_REPLAY_H_

#include <string>

#include "client/cli/command.h"

namespace nearfield::client {

// From the record's own rows where it has them, without a server; else the server is asked, at the
// record's epoch. Returns the exit code: kExitNegative where the record is proven right, that is,
// the answer or row was wrong, or where that cannot be told.
int ReplayRecord(const GlobalOptions& global, const std::string& path);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_REPLAY_H_

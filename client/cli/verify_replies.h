// nearfield verify --replies: a log of replies against the server's oracle.
#ifndef NEARFIELD_CLIENT_CLI_VERIFY_REPLIES_H_
#define NEARFIELD_CLIENT_CLI_VERIFY_REPLIES_H_

#include <string>

#include "client/cli/command.h"

namespace nearfield::client {

// Asks Admin.Verify about every line, at its own epoch, and prints what differs and a summary. An
// answer of another epoch than the collection's cannot be checked, and counts as neither right nor
// wrong. Returns the exit code: kExitNegative for a difference, a damaged line, or where nothing
// could be checked.
int VerifyReplies(const GlobalOptions& global, const std::string& path);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_VERIFY_REPLIES_H_

// Commands on a data directory that is not being served. They write for people, to stdout and
// stderr.
#pragma once

#include <string>

#include "server/config/exit_code.h"

namespace nearfield::server {

// Reads and checks everything in the directory, and prints its contents. Like every start, removes
// data that was never committed.
// Returns: kConfiguration (no data directory, or a server uses it), kStorage (damaged), else
// kClean.
ExitCode CheckDataDir(const std::string& dir);

// Makes the directory `to` from the snapshot `from`: copies it, checks it as a whole, then renames
// it, so that `to` exists complete or not at all.
// Returns: kConfiguration (`to` exists already, or there is no such snapshot), kStorage (the
// snapshot is damaged, or could not be read or copied), else kClean.
ExitCode RestoreDataDir(const std::string& from, const std::string& to);

}  // namespace nearfield::server

// What the program does with a data directory instead of serving it: for people, on stdout and
// stderr.
#ifndef NEARFIELD_SERVER_OFFLINE_H_
#define NEARFIELD_SERVER_OFFLINE_H_

#include <string>

#include "server/config/exit_code.h"

namespace nearfield::server {

// Reads and checks everything in the directory, and prints what it holds. As every start, it
// removes what was never committed. kConfiguration: there is none, or a server uses it; kStorage:
// damaged.
ExitCode CheckDataDir(const std::string& dir);

// Makes the directory `to` from the snapshot `from`: copied, checked as a whole, then named, so
// that it is there complete or not at all. kConfiguration: `to` is there already, or there is no
// such snapshot; kStorage: the snapshot is damaged, or could not be read or copied.
ExitCode RestoreDataDir(const std::string& from, const std::string& to);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_OFFLINE_H_

// RunServer: the whole program, from the command line to the exit code.
#ifndef NEARFIELD_SERVER_PROCESS_RUN_SERVER_H_
#define NEARFIELD_SERVER_PROCESS_RUN_SERVER_H_

#include "server/process/engine_factory.h"

namespace nearfield::server {

// Returns the exit code (config/exit_code.h). SIGHUP reloads the configuration. Ends the process
// itself if it cannot return: after a second signal, with a lost device, or if calls do not end.
// Requires: called from main, before any thread is started.
int RunServer(int argc, char** argv, const EngineFactory& make_engine);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_PROCESS_RUN_SERVER_H_

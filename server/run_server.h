// The whole program, from the command line to the exit code.
#ifndef NEARFIELD_SERVER_RUN_SERVER_H_
#define NEARFIELD_SERVER_RUN_SERVER_H_

#include "server/engine_factory.h"

namespace nearfield::server {

// Returns the exit code (config/exit_code.h). Call from main, before any thread is started. Ends
// the process by itself where it cannot be left in order: a second signal, a lost device, calls
// that do not end. SIGHUP reloads the configuration.
int RunServer(int argc, char** argv, const EngineFactory& make_engine);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_RUN_SERVER_H_

// RunServer: the whole program, from the command line to the exit code.
#pragma once

#include "server/boot/engine_factory.h"

namespace nearfield::server {

// Returns the exit code (config/exit_code.h). SIGHUP reloads the configuration. Ends the process
// itself if it cannot return: after a second signal, with a lost device, or if calls do not end.
// Requires: called from main, before any thread is started.
int RunServer(int argc, char** argv, const EngineFactory& make_engine);

}  // namespace nearfield::server

// A load that is spread over processes: a single one, with its set of connections, is slower than
// the server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/service_load.h"

namespace nearfield::bench {

// Writes a tally to standard output, for ReadTallies in another process.
void PrintTally(const LoadTally& tally);

// Runs `command` with "--worker --callers n --seconds s --rate r --seed i" in `processes` processes
// that share the load. Ends this process if one of them fails.
std::vector<LoadTally> RunInProcesses(const std::string& command, const Load& load,
                                      int32_t processes);

}  // namespace nearfield::bench

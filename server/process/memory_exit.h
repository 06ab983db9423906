// A terminate handler for a lack of memory or threads where no call can be refused. It writes one
// line to stderr and exits with a code; the runtime's handler would raise SIGABRT.
#pragma once

namespace nearfield::server {

// Sets the terminate handler of the process. May run before any initializer of the program. The
// exit code is kConfiguration until ServingBegins, and kFailure after it.
void InstallMemoryExit() noexcept;

// Marks the end of the start. After it, a supervisor can expect a restarted process to serve.
void ServingBegins() noexcept;

}  // namespace nearfield::server

// The end of the process where memory, or a thread, cannot be had in a place that cannot refuse a
// call: a line on stderr and an exit code, where the runtime would raise SIGABRT.
#ifndef NEARFIELD_SERVER_MEMORY_EXIT_H_
#define NEARFIELD_SERVER_MEMORY_EXIT_H_

namespace nearfield::server {

// Sets the process's terminate handler. May run before any initializer of the program. The exit
// code is kConfiguration until ServingBegins, and kFailure after it.
void InstallMemoryExit() noexcept;

// The start is over: a supervisor that starts the process again gets a server that serves.
void ServingBegins() noexcept;

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_MEMORY_EXIT_H_

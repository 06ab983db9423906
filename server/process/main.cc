// The program nearfield-server.
#include "nearfield/engine/engine.h"
#include "server/process/memory_exit.h"
#include "server/process/run_server.h"

// jemalloc reads this at its start: return freed pages to the system after one second, on a
// background thread.
extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming, cppcoreguidelines-avoid-non-const-global-variables)
const char* malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";
}

namespace {

// Installs the exit for lack of memory. The loader calls it before the initializers of the
// libraries, which make thousands of allocations.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
__attribute__((section(".preinit_array"), used)) void (*install_memory_exit)() = [] {
  nearfield::server::InstallMemoryExit();
};

}  // namespace

int main(int argc, char** argv) {
  return nearfield::server::RunServer(argc, argv, nearfield::Engine::Create);
}

#include "server/process/memory_exit.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "server/config/exit_code.h"

namespace nearfield::server {
namespace {

// Maximum wait for a blocked reader of stderr. After it, the line is dropped.
constexpr int kStderrWaitMs = 100;

// Constant-initialized, so they are valid before any initializer runs.
std::atomic<bool> serving{false};
std::terminate_handler handler_before = nullptr;

// Writes `line` to stderr. Does not allocate.
void Print(std::string_view line) {
  pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&err, 1, kStderrWaitMs) != 1) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

[[noreturn]] void Leave(std::string_view line) {
  Print(line);
  std::_Exit(static_cast<int>(serving.load() ? ExitCode::kFailure : ExitCode::kConfiguration));
}

[[noreturn]] void OnTerminate() {
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    Leave("nearfield-server: the host is out of memory: the process ends, nothing is lost\n");
  } catch (const std::system_error&) {
    Leave("nearfield-server: a thread cannot be started: the process ends, nothing is lost\n");
  } catch (...) {  // NOLINT(bugprone-empty-catch): the runtime's handler reports it
  }
  if (handler_before != nullptr) handler_before();
  std::abort();
}

}  // namespace

void InstallMemoryExit() noexcept { handler_before = std::set_terminate(OnTerminate); }

void ServingBegins() noexcept { serving.store(true); }

}  // namespace nearfield::server

// The whole server program over an engine with a fault. NEARFIELD_FAULT selects the fault, so that
// the flags remain those of the server.
//   lose_at_search=N  the device is lost in the Nth search
//   self_test         the self-test differs
//   no_engine         the engine cannot be created: no GPU
//   hang_self_test    the self-test never ends
//   hang_search       searches end only when they are cancelled
//   lose_in_drain     as hang_search, and then the device is lost
//   deaf_search       searches never end
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "server/process/run_server.h"
#include "tests/testing/scripted_engine.h"

namespace {

// Reports to the test that a search is held.
void TellWhenHeld(nearfield::testing::EngineScript* script) {
  script->search_gate.AwaitArrivals(1);
  std::puts("held");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const char* given =
      std::getenv("NEARFIELD_FAULT");  // NOLINT(concurrency-mt-unsafe): before threads
  const std::string fault = given == nullptr ? "" : given;
  const auto script = std::make_shared<nearfield::testing::EngineScript>();
  const std::string lose = "lose_at_search=";
  if (fault.rfind(lose, 0) == 0) script->lose_at_search = std::stoll(fault.substr(lose.size()));
  if (fault == "self_test") script->self_test_differs = true;
  if (fault == "hang_self_test") script->self_test_gate.Close();
  const bool hangs = fault == "hang_search" || fault == "lose_in_drain" || fault == "deaf_search";
  if (hangs) script->search_gate.Close();
  if (fault == "lose_in_drain") script->lose_at_search = 1;
  script->deaf_searches = fault == "deaf_search";
  return nearfield::server::RunServer(
      argc, argv,
      [&](const nearfield::EngineOptions&) -> absl::StatusOr<std::unique_ptr<nearfield::Engine>> {
        if (fault == "no_engine")
          return absl::FailedPreconditionError("backend = gpu: no usable GPU");
        if (hangs) std::thread([script] { TellWhenHeld(script.get()); }).detach();
        return nearfield::testing::MakeScriptedEngine(script);
      });
}

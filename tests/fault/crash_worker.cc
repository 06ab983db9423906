// One life of the store: opens it, checks all of it against the log, then runs operations until the
// step limit or until it dies. crash_main starts it repeatedly with the fault library preloaded.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "server/store/checksum.h"
#include "tests/fault/crash_exit.h"
#include "tests/fault/crash_flips.h"
#include "tests/fault/crash_log.h"
#include "tests/fault/crash_session.h"

namespace nearfield::fault {
namespace {

int Report(const std::string& path, const Findings& findings) {
  std::ofstream(path) << findings.lost << ' ' << findings.half << ' ' << findings.wrong << ' '
                      << findings.first << '\n';
  return kExitFindings;
}

std::string Environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

struct Work {
  uint64_t seed = 0;
  int64_t steps = 0;  // per lane
  int64_t lanes = 1;
};

int Live(const std::string& root, const std::string& log_path, const std::string& result,
         const Work& work) {
  CrashLog log(log_path, work.lanes);
  const std::string kind = Environment("NEARFIELD_FAULT_KIND");
  CrashSession session({.root = root,
                        .seed = work.seed,
                        .acknowledges_early = !Environment("NEARFIELD_CRASH_EARLY_ACK").empty(),
                        .calls_may_fail = kind != "count" && kind != "kill" && kind != "power"},
                       &log);
  // OpenSSL allocates at its first use and does not survive a failure there. Make that first use
  // now, as part of the start of the process, before a store exists.
  store::Sha256();
  Findings findings;
  if (const absl::Status opened = session.Open(); !opened.ok()) {
    findings.Add(&findings.lost, 1, "open: " + opened.ToString());
    Report(result, findings);
    return kExitRefused;
  }
  findings = session.Check();
  if (!findings.none()) return Report(result, findings);
  if (const absl::Status run = session.Run(work.steps); !run.ok()) {
    findings.Add(&findings.wrong, 1, "step: " + run.ToString());
    return Report(result, findings);
  }
  session.Close();
  return 0;
}

}  // namespace
}  // namespace nearfield::fault

int main(int argc, char** argv) {
  namespace fault = nearfield::fault;
  if (argc == 5 && std::string(argv[1]) == "flips") {
    return fault::FlipEveryByte(argv[2], std::strtoll(argv[3], nullptr, 10),
                                std::strtoll(argv[4], nullptr, 10));
  }
  if (argc != 7) {
    std::fprintf(stderr,
                 "usage: crash_worker ROOT LOG RESULT SEED STEPS LANES | flips DIR FIRST STRIDE\n");
    return fault::kExitUsage;
  }
  return fault::Live(argv[1], argv[2], argv[3],
                     {.seed = std::strtoull(argv[4], nullptr, 10),
                      .steps = std::strtoll(argv[5], nullptr, 10),
                      .lanes = std::strtoll(argv[6], nullptr, 10)});
}

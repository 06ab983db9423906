// One life of a store between two deaths: checks the store, then changes it with operations drawn
// from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "absl/status/status.h"
#include "server/store/store.h"
#include "tests/fault/crash_check.h"
#include "tests/fault/crash_lane.h"
#include "tests/fault/crash_log.h"

namespace nearfield::fault {

class CrashSession {
 public:
  // Uses as many lanes as the log has.
  CrashSession(SessionOptions options, CrashLog* log);

  // Opens the store. Errors: those of the store.
  absl::Status Open();
  // Compares the store with the log and resolves the operations in flight.
  Findings Check();
  // Runs `steps` random operations in each lane, all lanes concurrently. Errors: the store broke
  // its contract.
  absl::Status Run(int64_t steps);
  void Close();

 private:
  absl::Status ResumeAll(Findings* findings);

  const SessionOptions options_;
  CrashLog* const log_;
  std::unique_ptr<store::Store> store_;
  std::shared_mutex gate_;
  std::vector<std::unique_ptr<CrashLane>> lanes_;
};

}  // namespace nearfield::fault

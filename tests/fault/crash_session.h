// One life of a store between two deaths: checked at its start, then driven by a seed.
#ifndef NEARFIELD_TESTS_FAULT_CRASH_SESSION_H_
#define NEARFIELD_TESTS_FAULT_CRASH_SESSION_H_

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/store/store.h"
#include "tests/fault/crash_check.h"
#include "tests/fault/crash_lane.h"
#include "tests/fault/crash_log.h"

namespace nearfield::fault {

class CrashSession {
 public:
  // With the lanes of the log.
  CrashSession(SessionOptions options, CrashLog* log);

  // Opens the store. Errors: the store's.
  absl::Status Open();
  // Compares everything with the log, and settles the operations in flight.
  Findings Check();
  // So many random operations in each lane, all lanes at the same time. Not OK: the store did what
  // it may not.
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

#endif  // NEARFIELD_TESTS_FAULT_CRASH_SESSION_H_

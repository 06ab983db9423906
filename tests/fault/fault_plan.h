// The plan of the fault library for the process that loads it, read from the environment.
//
//   NEARFIELD_FAULT_ROOT         absolute path: only files under it are covered; unset: no effect
//   NEARFIELD_FAULT_STASH        an empty directory on the same file system, outside the root
//   NEARFIELD_FAULT_KIND         count: no effect
//                                kill: the process dies
//                                power: it dies, and a part of the unsynced data is lost
//                                eio, enospc: calls that change a file fail
//                                eio-read: reads fail
//                                emfile, enfile: opens fail
//                                enomem: one allocation fails (allocation_fault.h)
//   NEARFIELD_FAULT_AT           number of the affected call, from 1; changes, reads, opens and
//                                allocations have separate counts, and the kind selects one
//   NEARFIELD_FAULT_ALLOCATIONS  marked: counts only allocations that the program marks; unset: all
//   NEARFIELD_FAULT_TIMES        number of consecutive calls that fail (default 1)
//   NEARFIELD_FAULT_SEED         seeds all random choices
//   NEARFIELD_FAULT_IGNORE_SYNC  segments, catalog or directories: their syncs do nothing and
//                                return OK
//   NEARFIELD_FAULT_LOG          file that gets a line for each call that is made to fail; for an
//                                allocation it names the program or library of each stack frame
//   NEARFIELD_FAULT_CALLS        file that gets the counts of changes, reads, opens and allocations
//                                if the process exits
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/testing/random.h"

namespace nearfield::fault {

enum class FaultKind : uint8_t { kCount, kKill, kPower, kEio, kEnospc, kEioRead, kEmfile, kEnfile };

// The outcome of one call.
enum class Step : uint8_t { kProceed, kDieBefore, kDiePartial, kDieAfter, kFail };

// Kinds of calls that differ in the errors that they can get.
enum class CallKind : uint8_t {
  kWrite,
  kMakeName,
  kRemoveName,
  kTruncate,
  kReserve,
  kSync,
  kRead,
  kOpen
};

class FaultPlan {
 public:
  static FaultPlan FromEnvironment();

  bool active() const { return !root_.empty(); }
  // Returns true if state that is not synced must be remembered.
  bool models_disk() const { return kind_ == FaultKind::kPower || kind_ == FaultKind::kEio; }
  FaultKind kind() const { return kind_; }
  int error() const;
  const std::string& stash() const { return stash_; }
  testing::Random& random() { return random_; }

  bool Covers(const std::string& path) const;
  bool IgnoresSync(const std::string& path, bool is_directory) const;
  // Counts one call on a covered file and returns its outcome.
  Step Next(CallKind call);
  void LogFailure(const char* call, const std::string& path) const;
  void WriteCalls(int64_t allocations) const;

 private:
  std::string root_;
  std::string stash_;
  std::string ignore_sync_;
  std::string log_;
  std::string calls_file_;
  FaultKind kind_ = FaultKind::kCount;
  int64_t at_ = 0;
  int64_t times_ = 1;
  std::array<int64_t, 3> calls_ = {};  // changes, reads, opens
  testing::Random random_{0};
};

}  // namespace nearfield::fault

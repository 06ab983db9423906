// What the fault library shall do to the process it is loaded into; read from the environment.
//
//   NEARFIELD_FAULT_ROOT         files under this absolute path count; unset: nothing happens
//   NEARFIELD_FAULT_STASH        an empty directory on the same file system, outside the root
//   NEARFIELD_FAULT_KIND         kill: the process dies; power: it dies, and a part of the data
//   that
//                                was not synced is lost; eio, enospc: calls that change a file
//                                fail; eio-read: reads fail; emfile, enfile: opens fail; enomem:
//                                one allocation fails (allocation_fault.h); count: nothing happens
//   NEARFIELD_FAULT_AT           the number of the call, from 1, that is hit; changes, reads, opens
//                                and allocations are counted apart; the kind selects one of them
//   NEARFIELD_FAULT_ALLOCATIONS  marked: only allocations count that the program marks; unset: all
//   NEARFIELD_FAULT_TIMES        where calls fail: so many in a row (default 1)
//   NEARFIELD_FAULT_SEED         for everything random
//   NEARFIELD_FAULT_IGNORE_SYNC  segments, catalogue or directories: their syncs do nothing and
//                                return OK
//   NEARFIELD_FAULT_LOG          gets one line when a call is made to fail; that of an allocation
//                                names the program or library of each frame of its stack
//   NEARFIELD_FAULT_CALLS        gets the numbers of changes, reads, opens and allocations when the
//                                process ends by itself
#ifndef NEARFIELD_TESTS_FAULT_FAULT_PLAN_H_
#define NEARFIELD_TESTS_FAULT_FAULT_PLAN_H_

#include <array>
#include <cstdint>
#include <string>

#include "tests/testing/random.h"

namespace nearfield::fault {

enum class FaultKind : uint8_t { kCount, kKill, kPower, kEio, kEnospc, kEioRead, kEmfile, kEnfile };

// What happens to one call.
enum class Step : uint8_t { kProceed, kDieBefore, kDiePartial, kDieAfter, kFail };

// What a call does, as far as errors go.
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
  // Whether un-synced state has to be remembered.
  bool models_disk() const { return kind_ == FaultKind::kPower || kind_ == FaultKind::kEio; }
  FaultKind kind() const { return kind_; }
  int error() const;
  const std::string& stash() const { return stash_; }
  testing::Random& random() { return random_; }

  bool Covers(const std::string& path) const;
  bool IgnoresSync(const std::string& path, bool is_directory) const;
  // Counts one call on a file that is covered.
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

#endif  // NEARFIELD_TESTS_FAULT_FAULT_PLAN_H_

// The campaigns of the crash harness.
#ifndef NEARFIELD_TESTS_FAULT_CRASH_CAMPAIGN_H_
#define NEARFIELD_TESTS_FAULT_CRASH_CAMPAIGN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/fault/crash_runner.h"

namespace nearfield::fault {

struct CampaignOptions {
  std::string worker;
  std::string library;
  std::string dir;  // for work; what failed stays in it
  int64_t points = 2000;
  int64_t jobs = 2;  // at once
  uint64_t seed = 1;
  int64_t allocations = 400;  // of the script that fail; spread evenly over all of them
  int64_t error_steps = 60;   // operations of the script in which every call fails once
};

// Deaths at random calls, many on one directory; each life begins with a check of everything. In
// every second directory several threads change the store at the same time.
Tally RunDeaths(const CampaignOptions& options);

// Every call of a script fails once with EIO and once with ENOSPC, and a full disk for a while, and
// so do `allocations` of its allocations; afterwards everything acknowledged must be there, and
// nothing may be acknowledged after a failed sync.
Tally RunErrors(const CampaignOptions& options);

// Every byte of a small data set changed, one at a time (crash_flips.h). Prints what came of it on
// stderr; whether each was seen or harmless.
bool RunFlips(const CampaignOptions& options);

// A fault planted on purpose, and how to provoke it.
struct Control {
  std::string name;
  std::vector<std::pair<std::string, std::string>> environment;
  enum class Provoke { kDeaths, kErrors, kFlips } provoke = Provoke::kDeaths;
  int64_t threads = 1;  // of the worker
};
const std::vector<Control>& Controls();

// Whether the harness finds something wrong with the fault planted. Deterministic by the seed.
bool Caught(const CampaignOptions& options, const Control& control);

}  // namespace nearfield::fault

#endif  // NEARFIELD_TESTS_FAULT_CRASH_CAMPAIGN_H_

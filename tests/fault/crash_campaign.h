// The campaigns of the crash harness.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fault/crash_runner.h"

namespace nearfield::fault {

struct CampaignOptions {
  std::string worker;
  std::string library;
  std::string dir;  // for work; files of failed cases stay there
  // Folder of workers that were built with the patches of tests/fault/mutations, and have their
  // names. Empty: their controls are left out.
  std::string patched_workers;
  int64_t points = 2000;
  int64_t jobs = 2;  // concurrent
  uint64_t seed = 1;
  int64_t allocations = 400;  // of the script that fail; evenly spread over all of them
  int64_t error_steps = 60;   // operations in the script in which every call fails once
  int64_t flip_step = 1;      // every N-th byte is flipped, beginning at a random one
};

// Calls work(0) .. work(count - 1) on `jobs` threads.
void InParallel(int64_t jobs, int64_t count, const std::function<void(int64_t)>& work);

// Kills the worker at random calls, many times in one directory. Each life begins with a check of
// the whole store. In every second directory several threads change the store concurrently.
Tally RunDeaths(const CampaignOptions& options);

// Fails every call of a script once with EIO, once with ENOSPC, and as part of a period with a full
// disk; also fails `allocations` of its allocations. Afterwards every acknowledged operation must
// be present, and none may be acknowledged after a failed sync.
Tally RunErrors(const CampaignOptions& options);

// Changes every byte of a small data set, one at a time (crash_flips.h). Prints the outcome on
// stderr. Returns true if each change was detected or harmless.
bool RunFlips(const CampaignOptions& options);

// A planted bug, and how to provoke it.
struct Control {
  std::string name;
  std::vector<std::pair<std::string, std::string>> environment;
  enum class Provoke { kDeaths, kErrors, kFlips } provoke = Provoke::kDeaths;
  int64_t threads = 1;  // threads of the worker
  std::string worker;   // one that a patch has changed; empty: that of the options
};
std::vector<Control> Controls(const CampaignOptions& options);

// Returns true if the harness finds an error with the bug planted. Deterministic for a seed.
bool Caught(CampaignOptions options, const Control& control);

}  // namespace nearfield::fault

// CrashRunner: runs crash_worker repeatedly in one directory, with a planned fault in each life
// (run), and counts what the store lost.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nearfield::fault {

struct RunnerOptions {
  std::string worker;   // path of crash_worker
  std::string library;  // path of the fault library
  std::string dir;      // of this runner alone; preferably on a file system in memory
};

// One life of the worker.
struct Life {
  std::string kind = "count";  // see fault_plan.h
  int64_t at = 0;
  int64_t times = 1;
  uint64_t seed = 0;
  int64_t steps = 0;  // per thread
  int64_t threads = 1;
  std::vector<std::pair<std::string, std::string>> environment;  // plants a bug (Control)
};

struct FlipOptions {
  int64_t first = 0;   // first byte of the data set
  int64_t stride = 1;  // distance to the next byte
  std::vector<std::pair<std::string, std::string>> environment;
  bool quiet = false;
};

// How a life ended.
struct Death {
  bool killed = false;  // by the fault, as intended
  int code = 0;         // else the exit code
  // Counts of the calls that changed, read and opened files, and of the store's allocations; 0 if
  // the worker was killed.
  int64_t calls = 0;
  int64_t reads = 0;
  int64_t opens = 0;
  int64_t allocations = 0;
};

struct Tally {
  int64_t points = 0;  // faults that happened
  int64_t acked = 0;   // operations that the store acknowledged
  int64_t lost = 0;    // this and the next two: see Findings (crash_check.h)
  int64_t half = 0;
  int64_t wrong = 0;
  std::string first;  // first finding, in words

  bool clean() const { return lost + half + wrong == 0; }
  void Add(const Tally& other);
};

class CrashRunner {
 public:
  explicit CrashRunner(RunnerOptions options) : options_(std::move(options)) {}

  // Empties the directory, log included.
  void Reset();
  Death Run(const Life& life) const;
  // Runs the worker's `flips` (crash_flips.h) and returns its exit code.
  int Flips(const FlipOptions& options) const;
  // Adds the findings of the last life to the tally; `death` is the result of Run.
  void Count(const Death& death, Tally* tally) const;
  // Returns true if the log has an acknowledgement after a failed sync.
  bool AckAfterFailedSync() const;
  // Returns true if a call was made to fail since the last Reset.
  bool SawFailure() const { return !FailedCall().empty(); }
  // Returns the log's line about the first call that was made to fail; empty: there was none.
  std::string FailedCall() const;
  int64_t Acknowledged() const { return LinesThatBegin("ack "); }
  // Returns true if the store was opened and an operation begun since the last Reset.
  bool Tried() const { return LinesThatBegin("try ") > 0; }
  std::string dir() const { return options_.dir; }

 private:
  std::string Path(const char* name) const { return options_.dir + "/" + name; }
  std::vector<std::string> LogLines() const;
  int64_t LinesThatBegin(const std::string& with) const;

  const RunnerOptions options_;
};

}  // namespace nearfield::fault

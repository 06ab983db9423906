// Runs cases of the selection benchmark on the device: checks each first, then times it.
#ifndef NEARFIELD_TESTS_BENCH_SELECT_RUNNER_H_
#define NEARFIELD_TESTS_BENCH_SELECT_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"
#include "tests/bench/select_case.h"
#include "tests/bench/select_cuda.h"
#include "tests/bench/select_oracle.h"

namespace nearfield::bench {

struct SelectRunnerOptions {
  uint64_t seed = 1;
  int runs_min = 51;         // calls between two events
  int runs_max = 201;        // stops here, or at runs_min once `seconds` have passed
  double seconds = 0.04;     // for each of the two figures of a case
  int slow_runs_min = 11;    // replaces runs_min if a call takes more than 5 ms
  bool graph = true;         // also time 20 calls in a graph, if a call takes less than 5 ms
  int copies_max = 8;        // of the input
  double memory_part = 0.9;  // of the device's free memory that a case may use
};

struct SelectRow {
  std::string choice;              // the algorithm that ran
  double us = 0;                   // one call between two events, median
  std::optional<double> graph_us;  // 20 calls in a graph, divided by 20, median
  int runs = 0;
  int64_t copies = 0;  // inputs that the runs rotate through
  bool warm = false;   // all copies together are less than twice the L2
  int64_t workspace_bytes = 0;
  uint64_t hash = 0;
};

class SelectRunner {
 public:
  // Replaces "all" with the algorithms that can select the shape. Drops cases that cannot run here,
  // and names each in dropped(). Allocates device memory once for the remaining ones, cases().
  // Errors: InvalidArgument and NotFound (a case that no device could run), Unavailable.
  static absl::StatusOr<std::unique_ptr<SelectRunner>> Create(const SelectRunnerOptions& options,
                                                              const std::vector<SelectCase>& cases);

  const std::vector<SelectCase>& cases() const { return cases_; }
  const std::vector<std::string>& dropped() const { return dropped_; }

  // Runs one of cases(). Consecutive cases with the same input share it. Errors: DataLoss (the
  // result is wrong; nothing was timed, and the next case can run).
  absl::StatusOr<SelectRow> Run(const SelectCase& one);

 private:
  explicit SelectRunner(const SelectRunnerOptions& options) : options_(options) {}

  absl::Status Expand(const std::vector<SelectCase>& cases);
  absl::Status ExpandOne(const SelectCase& one, int64_t memory_bytes, bool named);
  absl::StatusOr<int64_t> WorkspaceBytes(const SelectCase& one) const;
  absl::Status Allocate();
  absl::Status InitWorkspace() const;
  int64_t Copies(const select::Shape& shape) const;
  absl::Status PrepareInput(const SelectCase& one);
  select::Buffers BuffersOf(const select::Shape& shape, int64_t copy) const;
  absl::Status Poison(const select::Shape& shape) const;
  absl::Status Launch(const SelectCase& one, int64_t copy) const;
  absl::StatusOr<SelectRow> CheckAndTime(const SelectCase& one);
  absl::StatusOr<uint64_t> Check(const SelectCase& one);
  absl::Status CheckRow(const SelectCase& one, int64_t row);
  absl::Status CheckHash(const SelectCase& one, uint64_t hash, const char* when);
  absl::Status TimeCalls(const SelectCase& one, SelectRow& row) const;
  absl::Status TimeGraph(const SelectCase& one, SelectRow& row) const;

  const SelectRunnerOptions options_;
  std::unique_ptr<select::Selector> selector_;
  TimedStream stream_;
  std::vector<SelectCase> cases_;
  std::vector<std::string> dropped_;
  DeviceMemory scores_;
  DeviceMemory values_;
  DeviceMemory indices_;
  DeviceMemory workspace_;
  DeviceMemory baseline_;  // block_bubble's own workspace
  std::unique_ptr<SelectOracle> oracle_;

  // State of the input in scores_.
  std::string input_;
  std::map<int64_t, BestOfRow> best_;      // by row, as many results as the oracle keeps
  std::map<int64_t, uint64_t> hash_of_k_;  // every algorithm's result is the same
};

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_RUNNER_H_

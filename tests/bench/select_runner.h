// Runs cases of the selection benchmark on the device: checks each first, then times it.
#pragma once

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
#include "tests/bench/select_certificate.h"
#include "tests/bench/timed_case.h"
#include "tests/engine/topk/kit/select_cuda.h"

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
  // Errors: InvalidArgument and NotFound (a case that no device could run), Internal and
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<SelectRunner>> Create(const SelectRunnerOptions& options,
                                                              const std::vector<TimedCase>& cases);

  const std::vector<TimedCase>& cases() const { return cases_; }
  const std::vector<std::string>& dropped() const { return dropped_; }

  // Runs one of cases(). Consecutive cases with the same input share it. Errors: DataLoss (the
  // result is wrong; nothing was timed, and the next case can run).
  absl::StatusOr<SelectRow> Run(const TimedCase& one);

 private:
  explicit SelectRunner(const SelectRunnerOptions& options) : options_(options) {}

  absl::Status Expand(const std::vector<TimedCase>& cases);
  absl::Status ExpandOne(const TimedCase& one, int64_t memory_bytes, bool named);
  absl::StatusOr<int64_t> WorkspaceBytes(const TimedCase& one) const;
  absl::Status Allocate();
  absl::Status InitWorkspace() const;
  int64_t Copies(const select::Shape& shape) const;
  absl::Status PrepareInput(const TimedCase& one);
  select::Buffers BuffersOf(const select::Shape& shape, int64_t copy) const;
  absl::Status Poison(const select::Shape& shape) const;
  absl::Status Launch(const TimedCase& one, int64_t copy) const;
  absl::StatusOr<SelectRow> CheckAndTime(const TimedCase& one);
  absl::StatusOr<uint64_t> Check(const TimedCase& one);
  absl::StatusOr<select::Answer> OracleRow(const select::Shape& shape, int64_t row) const;
  absl::StatusOr<select::Answer> ResultRow(const select::Shape& shape, int64_t row) const;
  absl::Status CheckRow(const TimedCase& one, int64_t row);
  absl::Status CheckHash(const TimedCase& one, uint64_t hash, const char* when);
  absl::Status TimeCalls(const TimedCase& one, SelectRow& row) const;
  absl::Status TimeGraph(const TimedCase& one, SelectRow& row) const;

  const SelectRunnerOptions options_;
  std::unique_ptr<select::Selector> selector_;
  select::TimedStream stream_;
  std::vector<TimedCase> cases_;
  std::vector<std::string> dropped_;
  select::DeviceMemory scores_;
  select::DeviceMemory values_;
  select::DeviceMemory indices_;
  select::DeviceMemory workspace_;
  select::DeviceMemory baseline_;  // block_bubble's own workspace
  std::unique_ptr<SelectCertificate> certificate_;
  int64_t k_max_ = 0;  // of all cases

  // State of the input in scores_.
  std::string input_;
  std::map<int64_t, select::Answer> best_;  // by row, k_max_ results of the host oracle
  std::map<int64_t, uint64_t> hash_of_k_;   // every algorithm's result is the same
};

}  // namespace nearfield::bench

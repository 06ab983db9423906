// Fixture of the selection tests: runs the algorithms under test, those of the engine and those of
// tests/bench/published, on each case, and counts the comparisons.
//
// Environment variables:
//   NEARFIELD_SELECT_ALGORITHMS=a,b      runs only these
//   NEARFIELD_SELECT_CASES=N             number of sampled cases
//   NEARFIELD_SELECT_VERBOSE=1           prints each call before it runs, to find one that crashes
//   NEARFIELD_SELECT_HANG_SECONDS=N      time limit of a call; the process then names it and ends
// If the driver hangs, the process cannot end itself: run it under `timeout`.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/select.h"
#include "tests/engine/gpu/gpu_fixture.h"
#include "tests/engine/topk/kit/select_cases.h"
#include "tests/engine/topk/kit/select_oracle.h"
#include "tests/engine/topk/select_device.h"

namespace nearfield::select {

// Counts the cases that each algorithm supports and those compared. Stops a broken algorithm after
// a few failures instead of a thousand.
class Tally {
 public:
  void Supported(const std::string& algorithm) { ++counts_[algorithm].supported; }
  // Fails the test if the status is not OK.
  void Compared(const std::string& algorithm, const std::string& what, const absl::Status& status);
  bool Stopped(const std::string& algorithm) { return counts_[algorithm].failed >= kFailuresMax; }
  // Prints a line per algorithm. Fails the test if a supported case was not compared.
  void Report(const std::vector<std::string>& algorithms);

 private:
  static constexpr int64_t kFailuresMax = 3;
  struct Counts {
    int64_t supported = 0;
    int64_t compared = 0;
    int64_t failed = 0;
  };
  std::map<std::string, Counts> counts_;
};

class SelectorTest : public gpu::GpuTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Returns true if the algorithm can select the shape. Fails the test if it refuses with another
  // status than Unimplemented, or must support every shape.
  bool Supports(const Shape& shape, const std::string& algorithm);
  // Makes the workspace large enough for all of these cases.
  absl::Status ReserveFor(const std::vector<SelectCase>& cases);

  // Compares every algorithm with the oracle on every case. All calls use one workspace, which is
  // never initialized in between.
  void CompareAll(const std::vector<SelectCase>& cases);
  // Returns one answer of one algorithm.
  absl::StatusOr<Answer> Select(const SelectCase& problem, const std::string& algorithm);

  // Returns true if no test can continue because an earlier kernel broke the CUDA context.
  static bool DeviceLost() { return cudaDeviceSynchronize() != cudaSuccess; }

  std::vector<std::string> algorithms_;  // under test
  std::unique_ptr<Selector> selector_;
  std::unique_ptr<CallSite> site_;

 private:
  void CompareOne(const SelectCase& problem, size_t turn, Tally& tally);

  std::string call_before_ = "none";
};

}  // namespace nearfield::select

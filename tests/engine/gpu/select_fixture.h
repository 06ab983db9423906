// What the tests of the selection share: the algorithms under test, walked for each case, and the
// count of what was compared.
//
// Environment, for the device machine:
//   NEARFIELD_SELECT_ALGORITHMS=a,b      only these
//   NEARFIELD_SELECT_CASES=N             sampled cases
//   NEARFIELD_SELECT_VERBOSE=1           each call before it runs, to see which one takes the
//   device
//                                        down
//   NEARFIELD_SELECT_HANG_SECONDS=N      after which a call counts as hung: the process says which
//                                        and ends
// A device that hangs beyond that (in the driver, say) hangs the process: run it under `timeout`.
#ifndef NEARFIELD_TESTS_ENGINE_GPU_SELECT_FIXTURE_H_
#define NEARFIELD_TESTS_ENGINE_GPU_SELECT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/select.h"
#include "tests/engine/gpu/gpu_fixture.h"
#include "tests/engine/gpu/select_cases.h"
#include "tests/engine/gpu/select_device.h"
#include "tests/engine/gpu/select_oracle.h"

namespace nearfield::select {

// Counts, for each algorithm, the cases it supports and those compared; lets a broken one fail a
// few times, not a thousand.
class Tally {
 public:
  void Supported(const std::string& algorithm) { ++counts_[algorithm].supported; }
  // Fails the test where the status is not OK.
  void Compared(const std::string& algorithm, const std::string& what, const absl::Status& status);
  bool Stopped(const std::string& algorithm) { return counts_[algorithm].failed >= kFailuresMax; }
  // A line for each algorithm; fails the test where a supported case was not compared.
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

  // Whether the algorithm can select the shape; fails the test where it neither can nor says why.
  bool Supports(const Shape& shape, const std::string& algorithm);
  // Makes the one workspace large enough for all of these.
  absl::Status ReserveFor(const std::vector<SelectCase>& cases);

  // Every algorithm against the oracle on every case, all on one workspace never initialised in
  // between.
  void CompareAll(const std::vector<SelectCase>& cases);
  // One answer of one algorithm.
  absl::StatusOr<Answer> Select(const SelectCase& problem, const std::string& algorithm);

  // Whether no test can go on: an earlier kernel broke the CUDA context.
  static bool DeviceLost() { return cudaDeviceSynchronize() != cudaSuccess; }

  std::vector<std::string> algorithms_;  // under test
  std::unique_ptr<Selector> selector_;
  std::unique_ptr<CallSite> site_;

 private:
  void CompareOne(const SelectCase& problem, size_t turn, Tally& tally);

  std::string call_before_ = "none";
};

inline Answer OracleAnswer(const SelectCase& problem, const HostScores& scores) {
  return SelectBatch(problem.shape, scores.Row(0), scores.stride());
}

}  // namespace nearfield::select

#endif  // NEARFIELD_TESTS_ENGINE_GPU_SELECT_FIXTURE_H_

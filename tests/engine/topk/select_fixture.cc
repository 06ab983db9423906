#include "tests/engine/topk/select_fixture.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "tests/bench/published/selector.h"

namespace nearfield::select {

void Tally::Compared(const std::string& algorithm, const std::string& what,
                     const absl::Status& status) {
  Counts& counts = counts_[algorithm];
  ++counts.compared;
  if (status.ok()) return;
  ++counts.failed;
  ADD_FAILURE() << algorithm << ": " << what << ": " << status
                << (Stopped(algorithm) ? "\nno more of this algorithm" : "");
}

void Tally::Report(const std::vector<std::string>& algorithms) {
  for (const std::string& algorithm : algorithms) {
    const Counts& counts = counts_[algorithm];
    std::printf("  %-20s %6lld cases compared, %lld failed\n", algorithm.c_str(),
                static_cast<long long>(counts.compared), static_cast<long long>(counts.failed));
    if (Stopped(algorithm)) continue;
    EXPECT_EQ(counts.compared, counts.supported) << algorithm << " was left out";
  }
  std::fflush(stdout);
}

void SelectorTest::SetUp() {
  GpuTest::SetUp();
  if (IsSkipped()) return;
  ASSERT_FALSE(DeviceLost()) << "an earlier test broke the device";
  auto selector = gpu::published::CreateSelector({.device = 0});
  ASSERT_OK(selector);
  selector_ = *std::move(selector);
  std::vector<std::string> all;
  for (const AlgorithmInfo& info : selector_->Algorithms()) all.push_back(info.name);
  const std::string wanted = Environment("NEARFIELD_SELECT_ALGORITHMS");
  algorithms_ = all;
  if (!wanted.empty()) algorithms_ = absl::StrSplit(wanted, ',', absl::SkipEmpty());
  for (const std::string& algorithm : algorithms_) {
    ASSERT_NE(std::find(all.begin(), all.end(), algorithm), all.end()) << algorithm;
  }
  site_ = std::make_unique<CallSite>(*selector_);
  ASSERT_OK(site_->Init());
}

void SelectorTest::TearDown() {
  site_.reset();
  selector_.reset();
}

bool SelectorTest::Supports(const Shape& shape, const std::string& algorithm) {
  const absl::Status status = selector_->Supports(shape, algorithm);
  const bool may_refuse = algorithm != kAdaptive && algorithm != "radix_sort";
  EXPECT_TRUE(status.ok() || (may_refuse && absl::IsUnimplemented(status)))
      << algorithm << ": " << status;
  return status.ok();
}

absl::Status SelectorTest::ReserveFor(const std::vector<SelectCase>& cases) {
  int64_t most = 0;
  for (const SelectCase& problem : cases) {
    for (const std::string& algorithm : algorithms_) {
      if (!Supports(problem.shape, algorithm)) continue;
      ABSL_ASSIGN_OR_RETURN(const int64_t bytes,
                            selector_->WorkspaceBytes(problem.shape, algorithm));
      most = std::max(most, bytes);
    }
  }
  return most == 0 ? absl::OkStatus() : site_->ReserveWorkspace(most);
}

absl::StatusOr<Answer> SelectorTest::Select(const SelectCase& problem,
                                            const std::string& algorithm) {
  static const bool verbose = !Environment("NEARFIELD_SELECT_VERBOSE").empty();
  if (verbose) {
    std::printf("%s: %s\n", algorithm.c_str(), Describe(problem).c_str());
    std::fflush(stdout);
  }
  call_before_ = absl::StrCat(algorithm, ": ", Describe(problem));
  return site_->Select(problem, algorithm);
}

void SelectorTest::CompareOne(const SelectCase& problem, size_t turn, Tally& tally) {
  const HostScores scores = MakeScores(problem);
  const Answer expected = OracleAnswer(problem, scores);
  ASSERT_OK(site_->Upload(scores));
  for (size_t i = 0; i < algorithms_.size(); ++i) {
    // Another one is first each time, so that every algorithm comes after every other.
    const std::string& algorithm = algorithms_[(i + turn) % algorithms_.size()];
    if (tally.Stopped(algorithm) || !Supports(problem.shape, algorithm)) continue;
    tally.Supported(algorithm);
    const std::string call_before = call_before_;
    const absl::Status status = Compare(problem.shape, expected, Select(problem, algorithm));
    tally.Compared(algorithm, Describe(problem), status);
    if (status.ok()) continue;
    std::printf("the call before: %s\n", call_before.c_str());
    ASSERT_FALSE(DeviceLost()) << "no call after this one";
    ASSERT_OK(site_->ResetWorkspace());
  }
  ASSERT_OK(site_->CheckScores(scores)) << Describe(problem);
}

void SelectorTest::CompareAll(const std::vector<SelectCase>& cases) {
  Tally tally;
  ASSERT_OK(ReserveFor(cases));
  for (size_t i = 0; i < cases.size(); ++i) {
    CompareOne(cases[i], i, tally);
    if (HasFatalFailure()) return;
  }
  tally.Report(algorithms_);
}

}  // namespace nearfield::select

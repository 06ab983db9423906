// The fixture of the laws: one run for each backend and scan. Runs that this machine cannot make
// are skipped, with the reason.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/property/cases.h"
#include "tests/testing/engines.h"

namespace nearfield::property {

struct Way {
  BackendKind backend = BackendKind::kCpu;
  ScanChoice scan = ScanChoice::kInt8;
  RowPlacement rows = RowPlacement::kDevice;
  int32_t devices = 1;
};
inline constexpr std::array kWays = {
    Way{BackendKind::kCpu, ScanChoice::kInt8},
    Way{BackendKind::kCpu, ScanChoice::kRows},
    Way{BackendKind::kGpu, ScanChoice::kInt8},
    Way{BackendKind::kGpu, ScanChoice::kRows},
    Way{BackendKind::kGpu, ScanChoice::kInt8, RowPlacement::kHost},
    Way{BackendKind::kGpu, ScanChoice::kInt16},
    Way{BackendKind::kGpu, ScanChoice::kInt16, RowPlacement::kHost},
    Way{BackendKind::kCpu, ScanChoice::kInt8, RowPlacement::kDevice, 3},
    Way{BackendKind::kGpu, ScanChoice::kInt8, RowPlacement::kDevice, 2},
    Way{BackendKind::kGpu, ScanChoice::kInt16, RowPlacement::kHost, 2}};
// Returns a name such as "CpuInt8" or "GpuInt8HostRows".
std::string Name(const Way& way);

using testing::MakeCollection;
using testing::UploadRows;

using Law = std::function<void(const Case&, Random&)>;

// Runs `law` on `cases_count` random cases. The seed of a case comes from the run's seed, the
// test's name and the case's number. Stops at the first failure and prints which case it was.
void ForEachCase(int cases_count, const CaseWish& wish, const Law& law);

class Laws : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override;
  Engine& engine() { return *engine_; }
  // The same, for collections that use the scan and row placement of this run.
  void ForEachCase(int cases_count, const CaseWish& wish, const Law& law);
  void ForEachCase(const Law& law) { ForEachCase(CasesCount(), {}, law); }

 private:
  Engine* engine_ = nullptr;
};

#define NEARFIELD_ON_EVERY_BACKEND(Suite)                               \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, ::testing::ValuesIn(kWays), \
                           [](const auto& way) { return Name(way.param); })

// Returns the answers of one batch. If the search fails, the test fails and there are no answers.
std::vector<Neighbors> SearchOrFail(Engine& engine, const Collection& collection,
                                    const SearchBatch& batch);

// Expects every answer to equal the expected one, to the bit.
void ExpectAnswers(const std::vector<Neighbors>& got, const std::vector<Neighbors>& want);

// Returns the indices 0 .. rows_count-1, shuffled and cut into `parts_count` parts; a part may be
// empty.
std::vector<std::vector<int64_t>> RandomParts(int64_t rows_count, int64_t parts_count,
                                              Random& random);

}  // namespace nearfield::property

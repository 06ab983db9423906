// The fixture of the laws: one run for each backend and for each way it scans, skipped with the
// reason where the machine has none.
#ifndef NEARFIELD_TESTS_PROPERTY_LAWS_H_
#define NEARFIELD_TESTS_PROPERTY_LAWS_H_

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/property/cases.h"
#include "tests/testing/answers.h"
#include "tests/testing/corpora.h"
#include "tests/testing/engines.h"
#include "tests/testing/random.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::property {

struct Way {
  BackendKind backend = BackendKind::kCpu;
  ScanChoice scan = ScanChoice::kInt8;
  RowHome rows = RowHome::kDevice;
};
inline constexpr std::array kWays = {
    Way{BackendKind::kCpu, ScanChoice::kInt8}, Way{BackendKind::kCpu, ScanChoice::kRows},
    Way{BackendKind::kGpu, ScanChoice::kInt8}, Way{BackendKind::kGpu, ScanChoice::kRows},
    Way{BackendKind::kGpu, ScanChoice::kInt8, RowHome::kHost}};
// "CpuInt8", "GpuInt8HostRows"
std::string Name(const Way& way);

using Law = std::function<void(const Case&, testing::Random&)>;

// Runs `law` on `cases_count` random cases, each from the run's seed, the test's name and its
// number; ends with the first that fails, and says which it was.
void ForEachCase(int cases_count, const CaseWish& wish, const Law& law);

class Laws : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override;
  Engine& engine() { return *engine_; }
  // The same, for collections that are scanned in this way.
  void ForEachCase(int cases_count, const CaseWish& wish, const Law& law);
  void ForEachCase(const Law& law) { ForEachCase(CasesCount(), {}, law); }

 private:
  Engine* engine_ = nullptr;
};

#define NEARFIELD_ON_EVERY_BACKEND(Suite)                               \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, ::testing::ValuesIn(kWays), \
                           [](const auto& way) { return Name(way.param); })

// Answers of one batch; a failure of the test, and no answers, where the search fails.
std::vector<Neighbors> SearchOrFail(Engine& engine, const Collection& collection,
                                    const SearchBatch& batch);

// Every answer is the expected one, to the bit.
void ExpectAnswers(const std::vector<Neighbors>& got, const std::vector<Neighbors>& want);

// The indices 0 .. rows_count-1, shuffled and cut into `parts_count` parts, some perhaps empty.
std::vector<std::vector<int64_t>> RandomParts(int64_t rows_count, int64_t parts_count,
                                              testing::Random& random);

}  // namespace nearfield::property

#endif  // NEARFIELD_TESTS_PROPERTY_LAWS_H_

// Searches of a CPU backend beside what engine/score alone says of them.
#ifndef NEARFIELD_TESTS_ENGINE_CPU_SCENARIO_H_
#define NEARFIELD_TESTS_ENGINE_CPU_SCENARIO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/corpus/backend.h"
#include "tests/engine/cpu/reference.h"

namespace nearfield::testing {

std::unique_ptr<corpus::Backend> MakeBackend(const std::string& instruction_set, int32_t threads);

// Generations, queries and what k each wants.
struct Scenario {
  CollectionSpec spec;
  std::vector<HostGeneration> generations;
  std::vector<float> queries;
  std::vector<int32_t> k;
};

// fp32 rows of great values in pairs, and queries whose elements cancel on each pair: sums of codes
// lose the little that tells rows apart. spec.dim > 4.
Scenario CancellingScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                            Random& random);
// Gaussian fp32 rows, every third scaled by 2^exponent, one with the largest fp32 element; queries
// of either kind. rows_count > 7.
Scenario ExtremeScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                         int exponent, Random& random);

// Every list is the beginning of its generation's order, to the bit, and holds all that is among
// the query's k best of all generations. Returns what the search cost.
corpus::ScanCost ExpectReferenceAnswers(corpus::Backend& backend, const Scenario& scenario);

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_ENGINE_CPU_SCENARIO_H_

// Compares searches of a CPU backend with reference answers computed by engine/score alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "tests/engine/cpu/reference.h"

namespace nearfield::testing {

std::unique_ptr<backend::Backend> MakeBackend(const std::string& instruction_set, int32_t threads,
                                              int64_t memory_bytes = int64_t{1} << 30);

// Generations, queries, and the k of each query.
struct Scenario {
  CollectionSpec spec;
  std::vector<HostGeneration> generations;
  std::vector<float> queries;
  std::vector<int32_t> k;
};

// Returns fp32 rows of large values in pairs, and queries whose elements cancel on each pair: sums
// of codes lose the small part that distinguishes rows. Requires: spec.dim > 4.
Scenario CancellingScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                            Random& random);
// Returns Gaussian fp32 rows, every third scaled by 2^exponent, one with the largest fp32 element;
// queries of both kinds. Requires: rows_count > 7.
Scenario ExtremeScenario(const CollectionSpec& spec, int64_t rows_count, int32_t queries_count,
                         int exponent, Random& random);

// Expects that every list is a prefix of its generation's order, bit for bit, and contains all rows
// that are among the query's k best of all generations. Returns the cost of the search.
backend::ScanCost ExpectReferenceAnswers(backend::Backend& backend, const Scenario& scenario);

}  // namespace nearfield::testing

namespace nearfield {

using testing::ExpectReferenceAnswers;
using testing::MakeBackend;
using testing::Scenario;

}  // namespace nearfield

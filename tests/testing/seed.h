// The random seed of a test run: --seed=N, else NEARFIELD_TEST_SEED, else a random number. It is
// printed at the start.
#ifndef NEARFIELD_TESTS_TESTING_SEED_H_
#define NEARFIELD_TESTS_TESTING_SEED_H_

#include <cstdint>

namespace nearfield::testing {

// Returns the seed; constant during the run.
uint64_t TestSeed();

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_TESTING_SEED_H_

// The seed of a test run: printed at the start, taken from --seed=N or NEARFIELD_TEST_SEED, else
// drawn anew.
#ifndef NEARFIELD_TESTS_TESTING_SEED_H_
#define NEARFIELD_TESTS_TESTING_SEED_H_

#include <cstdint>

namespace nearfield::testing {

// The same for the whole run.
uint64_t TestSeed();

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_TESTING_SEED_H_

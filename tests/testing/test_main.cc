// main() of every test program. It prints the random seed and accepts one, so that any failure can
// be repeated.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/testing/seed.h"

namespace nearfield::testing {
namespace {

uint64_t seed = 0;

void InitSeed(int argc, char** argv) {
  const char* given =
      std::getenv("NEARFIELD_TEST_SEED");  // NOLINT(concurrency-mt-unsafe): single thread so far
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--seed=", 7) == 0) given = argv[i] + 7;
  }
  seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  if (GTEST_FLAG_GET(list_tests)) return;
  std::printf("random seed %llu (repeat with --seed=%llu)\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seed));
}

}  // namespace

uint64_t TestSeed() { return seed; }

}  // namespace nearfield::testing

#ifdef __SANITIZE_THREAD__
// Debian's Abseil is not instrumented. A reference count orders the last owner's free of a status
// after all other reads; ThreadSanitizer does not see that count.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(*-reserved-identifier)
  return "race:absl::*Status::UnrefNonInlined\n";
}
#endif

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  nearfield::testing::InitSeed(argc, argv);
  return RUN_ALL_TESTS();
}

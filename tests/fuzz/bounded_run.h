// A bounded run of a fuzzer's entry on inputs drawn from the seed. NEARFIELD_FUZZ_INPUTS sets their
// number.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

// libFuzzer's entry of the linked fuzzer. Aborts on an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace nearfield::fuzz {

// Calls run(input) for inputs that draw(random) returns, until one fails.
template <typename Draw, typename Run>
void RunBounded(int inputs_count, Draw draw, Run run) {
  int count = 0;
  const char* named =
      std::getenv("NEARFIELD_FUZZ_INPUTS");  // NOLINT(concurrency-mt-unsafe): single thread
  if (named != nullptr && absl::SimpleAtoi(named, &count) && count > 0) inputs_count = count;
  for (int i = 0; i < inputs_count; ++i) {
    testing::Random random(testing::Scramble(testing::TestSeed()) + static_cast<uint64_t>(i));
    SCOPED_TRACE(::testing::Message() << "input " << i);
    ASSERT_NO_FATAL_FAILURE(run(draw(random)));
  }
}

template <typename Draw>
void RunBounded(int inputs_count, Draw draw) {
  RunBounded(inputs_count, draw, [](const std::vector<uint8_t>& input) {
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  });
}

}  // namespace nearfield::fuzz

// Comparing answers to the bit. EXPECT_THAT(got, BytesEqual(want)) prints the first difference.
#ifndef NEARFIELD_TESTS_TESTING_ANSWERS_H_
#define NEARFIELD_TESTS_TESTING_ANSWERS_H_

#include <gmock/gmock.h>

#include <string>

#include "nearfield/engine/engine.h"

namespace nearfield::testing {

// Where ids or score bits of `got` and `want` first differ, in words; empty where they are the
// same.
std::string FirstDifference(const Neighbors& got, const Neighbors& want);

// The first `k` of `answer`: ids and scores.
Neighbors Prefix(const Neighbors& answer, int64_t k);

// Two Neighbors have the same ids and the same score bits, in the same order.
MATCHER_P(BytesEqual, want, negation ? "is another answer" : "is the same answer, to the bit") {
  const std::string difference = FirstDifference(arg, want);
  *result_listener << difference;
  return difference.empty();
}

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_TESTING_ANSWERS_H_

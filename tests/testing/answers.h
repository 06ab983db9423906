// Compares answers to the bit: EXPECT_THAT(got, BytesEqual(want)) prints the first difference.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "nearfield/engine/engine.h"

namespace nearfield::testing {

// Describes the first difference in the ids or score bits of `got` and `want`; empty if they are
// equal.
std::string FirstDifference(const Neighbors& got, const Neighbors& want);

// Returns the ids and scores of the first `k` neighbors of `answer`.
Neighbors Prefix(const Neighbors& answer, int64_t k);

// Matches Neighbors with the same ids and the same score bits, in the same order.
MATCHER_P(BytesEqual, want, negation ? "is another answer" : "is the same answer, to the bit") {
  const std::string difference = FirstDifference(arg, want);
  *result_listener << difference;
  return difference.empty();
}

}  // namespace nearfield::testing

// Names that most tests of the server use: matchers, and the status codes (kNotFound, ...).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "absl/status/status.h"
#include "tests/testing/status_matchers.h"

namespace nearfield {

// Matches an absl::Status or absl::StatusOr with this code whose message contains every part.
template <typename... Parts>
auto FailsWith(absl::StatusCode code, const Parts&... parts) {
  return ::absl_testing::StatusIs(code, ::testing::AllOf(::testing::HasSubstr(parts)...));
}

namespace server {

using ::absl_testing::IsOk;
using ::absl_testing::IsOkAndHolds;
using ::absl_testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// A gRPC code has the number of the absl::StatusCode of its meaning, so tests of both use these.
using enum absl::StatusCode;
// The check of a caller that never cancels.
inline bool Never() { return false; }
// Calls `holds` until it returns true. Returns false if it does not within two minutes, so that a
// test of a broken server fails instead of hanging.
template <typename Condition>
bool Eventually(const Condition& holds) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > latest) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace server
}  // namespace nearfield

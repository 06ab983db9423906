// Matchers for absl::Status and absl::StatusOr, with the names of upstream Abseil. The Abseil of
// Debian 12 lacks this header.
#pragma once

#include <gmock/gmock.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"

namespace absl_testing {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}
// Statuses of gRPC, whose codes have the same numbers.
template <typename T>
requires requires(const T& status) { status.error_code(), status.error_message(); }
absl::Status GetStatus(const T& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code;
}

// Also matches the message: StatusIs(code, HasSubstr("k = 0")).
MATCHER_P2(StatusIs, code, message_matcher,
           "has status code " + absl::StatusCodeToString(code) + " and a message") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         ::testing::Matches(message_matcher)(std::string(GetStatus(arg).message()));
}

MATCHER_P(IsOkAndHolds, value_matcher, "is OK and holds a value") {
  *result_listener << GetStatus(arg).ToString();
  return arg.ok() && ::testing::ExplainMatchResult(value_matcher, *arg, result_listener);
}

}  // namespace absl_testing

#define ASSERT_OK(expr) ASSERT_THAT(expr, ::absl_testing::IsOk())
#define EXPECT_OK(expr) EXPECT_THAT(expr, ::absl_testing::IsOk())

// Assigns the value of a StatusOr to `lhs`, which may declare a variable; fails the test on an
// error.
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  NEARFIELD_ASSERT_OK_AND_ASSIGN_IMPL(NEARFIELD_STATUS_CONCAT(nf_result_, __LINE__), lhs, expr)
// The arguments are declared and assigned to, so they cannot be parenthesized.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define NEARFIELD_ASSERT_OK_AND_ASSIGN_IMPL(result, lhs, expr) \
  auto result = (expr);                                        \
  ASSERT_OK(result);                                           \
  lhs = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

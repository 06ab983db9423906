// Macros that return early on a non-OK absl::Status or StatusOr. They have upstream Abseil's names;
// Debian 12's Abseil lacks the header.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ABSL_RETURN_IF_ERROR(expr)                                          \
  do {                                                                      \
    if (absl::Status nf_status = (expr); !nf_status.ok()) return nf_status; \
  } while (false)

#define NEARFIELD_STATUS_CONCAT_INNER(a, b) a##b
#define NEARFIELD_STATUS_CONCAT(a, b) NEARFIELD_STATUS_CONCAT_INNER(a, b)
// The arguments are declared and assigned to, so they cannot be parenthesized.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define NEARFIELD_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                    \
  if (!result.ok()) return std::move(result).status();     \
  lhs = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define ABSL_ASSIGN_OR_RETURN(lhs, expr) \
  NEARFIELD_ASSIGN_OR_RETURN_IMPL(NEARFIELD_STATUS_CONCAT(nf_result_, __LINE__), lhs, expr)

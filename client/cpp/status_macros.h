// Macros that return early on a non-OK absl::Status or StatusOr. For the client, which does not
// include headers of the engine.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define NF_RETURN_IF_ERROR(expr)                                            \
  do {                                                                      \
    if (absl::Status nf_status = (expr); !nf_status.ok()) return nf_status; \
  } while (false)

#define NF_CONCAT_INNER(a, b) a##b
#define NF_CONCAT(a, b) NF_CONCAT_INNER(a, b)
// The arguments are declared and assigned to, so they cannot be parenthesized.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define NF_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)    \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define NF_ASSIGN_OR_RETURN(lhs, expr) \
  NF_ASSIGN_OR_RETURN_IMPL(NF_CONCAT(nf_result_, __LINE__), lhs, expr)

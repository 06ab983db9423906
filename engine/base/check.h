// Checks of invariants, with upstream Abseil's names; Debian 12's Abseil lacks the header.
//
//   CHECK(sealed_);
//   CHECK_EQ(change.epoch, epoch_ + 1);
//   DCHECK(std::is_sorted(ids.begin(), ids.end()));
//
// A failed check prints the file, the line, the condition and, for CHECK_EQ and the like, both
// values on stderr; then it aborts. It reports a defect of nearfield. Wrong input and failed system
// calls are an absl::Status instead.
//
// CHECK is on in every build, so its condition must be cheap. DCHECK is on unless NDEBUG is
// defined: in sanitizer builds. Elsewhere its arguments are compiled but not evaluated.
// Arguments are evaluated once. Host code only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"

#define CHECK(condition)                                                 \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::nearfield::check_internal::Fail(__FILE__, __LINE__, #condition); \
  } while (false)

#define CHECK_EQ(a, b) NEARFIELD_CHECK_OP(==, a, b)
#define CHECK_NE(a, b) NEARFIELD_CHECK_OP(!=, a, b)
#define CHECK_LT(a, b) NEARFIELD_CHECK_OP(<, a, b)
#define CHECK_LE(a, b) NEARFIELD_CHECK_OP(<=, a, b)
#define CHECK_GT(a, b) NEARFIELD_CHECK_OP(>, a, b)
#define CHECK_GE(a, b) NEARFIELD_CHECK_OP(>=, a, b)

#ifdef NDEBUG
#define NEARFIELD_IF_DCHECK while (false)
#else
#define NEARFIELD_IF_DCHECK
#endif
#define DCHECK(condition) NEARFIELD_IF_DCHECK CHECK(condition)
#define DCHECK_EQ(a, b) NEARFIELD_IF_DCHECK CHECK_EQ(a, b)
#define DCHECK_NE(a, b) NEARFIELD_IF_DCHECK CHECK_NE(a, b)
#define DCHECK_LT(a, b) NEARFIELD_IF_DCHECK CHECK_LT(a, b)
#define DCHECK_LE(a, b) NEARFIELD_IF_DCHECK CHECK_LE(a, b)
#define DCHECK_GT(a, b) NEARFIELD_IF_DCHECK CHECK_GT(a, b)
#define DCHECK_GE(a, b) NEARFIELD_IF_DCHECK CHECK_GE(a, b)

// NOLINTBEGIN(bugprone-macro-parentheses): an operator cannot be parenthesized
#define NEARFIELD_CHECK_OP(op, a, b)                                                      \
  do {                                                                                    \
    const auto& nf_check_a = (a);                                                         \
    const auto& nf_check_b = (b);                                                         \
    if (!(nf_check_a op nf_check_b)) [[unlikely]]                                         \
      ::nearfield::check_internal::Fail(__FILE__, __LINE__, #a " " #op " " #b,            \
                                        ::nearfield::check_internal::ToText(nf_check_a),  \
                                        ::nearfield::check_internal::ToText(nf_check_b)); \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)

namespace nearfield::check_internal {

[[noreturn, gnu::cold, gnu::noinline]] inline void Fail(const char* file, int line,
                                                        const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n",  // tidy: allow(stdio): the process ends here
               file, line, condition);
  std::abort();
}

[[noreturn, gnu::cold, gnu::noinline]] inline void Fail(const char* file, int line,
                                                        const char* condition, const std::string& a,
                                                        const std::string& b) {
  Fail(file, line, absl::StrCat(condition, " (", a, " vs. ", b, ")").c_str());
}

// Returns a number, an enumerator's number or a string as text.
template <typename Value>
std::string ToText(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return absl::StrCat(static_cast<int64_t>(value));
  } else {
    return absl::StrCat(value);
  }
}

}  // namespace nearfield::check_internal

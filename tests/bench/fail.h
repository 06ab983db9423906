// The end of a benchmark that cannot go on.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::bench {

inline void PrintError(const std::string& message) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, message.c_str());
}

// Prints the message and ends the program with 1.
[[noreturn]] inline void Fail(const std::string& message) {
  PrintError(message);
  std::exit(1);
}

inline void OrFail(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

// `what`: the step that failed.
template <typename T>
T OrFail(absl::StatusOr<T> result, const std::string& what = "") {
  if (!result.ok()) Fail((what.empty() ? what : what + ": ") + result.status().ToString());
  return *std::move(result);
}

// Returns the exit code for the status of a benchmark, and prints an error.
inline int ExitCode(const absl::Status& status) {
  if (!status.ok()) PrintError(status.ToString());
  return status.ok() ? 0 : 1;
}

}  // namespace nearfield::bench

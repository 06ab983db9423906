// Pipes as files: a pipe is copied to a temporary file, because its size must be known.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nearfield::client {

// The path that names standard input.
inline constexpr std::string_view kStandardInput = "-";

// Returns true for "-" and the other names of standard input.
bool IsStandardInput(std::string_view path);

// Returns true if the path names a pipe by its form: standard input, or a path below /dev/fd or
// /proc/self/fd, such as that of bash's <(command). Its ending says nothing about the format.
bool IsPipeName(std::string_view path);

// Copies everything that `fd` still has to a temporary file without a name, in $TMPDIR or /tmp, and
// returns that file. `path` is for messages. The caller closes both.
absl::StatusOr<int> Spool(int fd, const std::string& path);

}  // namespace nearfield::client

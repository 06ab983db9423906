// NamedBytes: the bytes of a file, with its name for error messages.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "client/cpp/text.h"

namespace nearfield::client {

struct NamedBytes {
  std::string_view name;
  std::string_view bytes;
};

// Returns InvalidArgument "FILE: PLACE: REASON", the form of every error about an input file.
template <typename... Reason>
absl::Status BadFile(std::string_view name, std::string_view place, const Reason&... reason) {
  return absl::InvalidArgumentError(Cat(name, ": ", place, ": ", reason...));
}

}  // namespace nearfield::client

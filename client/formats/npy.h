// The header of NumPy's .npy files, versions 1 to 3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/formats/named_bytes.h"

namespace nearfield::client {

struct NpyHeader {
  std::string descr;  // type of the elements, such as "<f4"
  bool fortran_order = false;
  std::vector<uint64_t> shape;
  uint64_t data_offset = 0;
};

// Returns true if the bytes begin as a .npy file does.
bool IsNpy(std::string_view bytes);

// Parses the header only. Errors: InvalidArgument (names the byte and what was expected there).
absl::StatusOr<NpyHeader> ParseNpyHeader(const NamedBytes& file);

}  // namespace nearfield::client

// Tables that pair the values of a proto enum with the values of a native one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"

namespace nearfield::server {

// Returns nullopt for a value that is not in the table.
template <typename Proto, typename Native, size_t kSize>
std::optional<Native> NativeIn(const std::pair<Proto, Native> (&table)[kSize], Proto wanted) {
  for (const auto& [proto, native] : table) {
    if (proto == wanted) return native;
  }
  return std::nullopt;
}

// Returns the first proto value that stands for `wanted`; 0, the unspecified one, if none does.
template <typename Proto, typename Native, size_t kSize>
Proto ProtoIn(const std::pair<Proto, Native> (&table)[kSize], Native wanted) {
  for (const auto& [proto, native] : table) {
    if (native == wanted) return proto;
  }
  return Proto{};
}

// Returns `native`, which `proto` was converted to. Errors: InvalidArgument (nullopt); `names`: the
// known values.
template <typename Native>
absl::StatusOr<Native> Known(const std::string& field, int proto, std::optional<Native> native,
                             const std::string& names) {
  if (native.has_value()) return *native;
  return MustBe(field, absl::StrCat(proto), names);
}

}  // namespace nearfield::server

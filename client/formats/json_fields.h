// JsonFields: typed access to the members of a JSON object.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/formats/json_text.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Borrows the text. Errors of all calls: InvalidArgument (names the member).
class JsonFields {
 public:
  // Errors: InvalidArgument (`text` is not a JSON object, or has a member twice).
  static absl::StatusOr<JsonFields> Parse(std::string_view text);

  // Checks that there is no other member, which would be ignored.
  absl::Status CheckNames(std::initializer_list<std::string_view> known) const;
  // Returns nullopt if the member is absent or null.
  std::optional<std::string_view> Find(std::string_view name) const;

  absl::StatusOr<JsonFields> Object(std::string_view name) const;
  absl::StatusOr<std::string> Text(std::string_view name) const;
  absl::StatusOr<uint64_t> Number(std::string_view name) const;
  // Returns the bytes that the hexadecimal digits encode.
  absl::StatusOr<std::string> Hex(std::string_view name) const;
  absl::StatusOr<std::vector<std::string>> HexList(std::string_view name) const;  // of an array
  absl::StatusOr<Id> OneId(std::string_view name) const;
  absl::StatusOr<IdColumn> Ids(std::string_view name) const;
  // Returns an array of fp32 values, each written as the eight digits of its bits.
  absl::StatusOr<std::vector<float>> FloatBits(std::string_view name) const;
  // Returns one of a set of names; `parse` returns nullopt for any other.
  template <typename E>
  absl::StatusOr<E> Named(std::string_view name,
                          std::optional<E> (*parse)(std::string_view)) const {
    const absl::StatusOr<std::string> text = Text(name);
    if (!text.ok()) return text.status();
    const std::optional<E> value = parse(*text);
    if (!value) return Bad(name, "an unknown name");
    return *value;
  }

 private:
  static absl::Status Bad(std::string_view name, std::string_view why);
  absl::StatusOr<std::string_view> Get(std::string_view name) const;

  std::vector<JsonMember> members_;
};

// Returns hexadecimal digits in lower case.
std::string ToHex(std::string_view bytes);
// Returns ["3f800000",...]: the bits of each value.
std::string FloatBitsJson(const std::vector<float>& values);

}  // namespace nearfield::client

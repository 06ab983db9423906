// JSON output for programs: one object per line.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "client/formats/json_text.h"
#include "nearfield/client/replies.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Prints six digits; null if absent. Requires: finite.
std::string ToJson(std::optional<double> value);
std::string ToJson(const Id& id);
std::string ToJson(const IdColumn& ids);
// Returns an integer, or true or false.
template <std::integral T>
std::string ToJson(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  return std::to_string(value);
}

// Builds {"key":value,...} in the order of the calls.
class JsonObject {
 public:
  // Adds a text, or a value that ToJson accepts.
  template <typename T>
  JsonObject& Add(std::string_view key, const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      return AddJson(key, QuoteJson(value));
    } else {
      return AddJson(key, ToJson(value));
    }
  }
  JsonObject& AddJson(std::string_view key, std::string_view json);  // `json` unchanged
  // Adds "payload" with the object or array that the bytes encode, or else with the bytes as text;
  // "payload_base64" if they are neither.
  JsonObject& AddPayload(std::string_view bytes);
  // Appends the fields of another object.
  JsonObject& Append(const JsonObject& other);

  std::string ToString() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

// Returns the value as %.9g, which identifies every fp32 value; infinities as the strings "inf" and
// "-inf", because JSON has no number for them.
std::string JsonNumber(float value);
// The same without quotes, for text output.
std::string ScoreText(float score);
// Returns the sum of row terms as %.17g, which identifies every fp64 value.
std::string TermSumText(double sum);

std::string JsonNumbers(std::span<const float> values);
// Returns one of the rows as numbers. Requires: row < rows_count.
std::string VectorJson(const EncodedVectors& vectors, size_t row, size_t rows_count);

JsonObject ToJson(const AttributeSpec& spec);
JsonObject ToJson(const CollectionInfo& info);
JsonObject ToJson(const SnapshotInfo& info);
JsonObject ToJson(const CompactAnswer& answer);
// One row of the table of limits.
struct LimitRow {
  const char* name;
  uint64_t value;
  const char* meaning;
};
std::vector<LimitRow> Describe(const Limits& limits);
JsonObject ToJson(const Limits& limits);
JsonObject ToJson(const Capacity& capacity);
JsonObject ToJson(const ScanEscalations& escalations);
JsonObject ToJson(const Counters& counters);
JsonObject ToJson(const SearchCost& cost);
JsonObject ToJson(const VerifyAnswer& answer);
// [{"id":...,"score":...,"parts":{"score":...,"term_sum":...},"payload":...,"vector":[...],"attributes":{...}},...]
std::string ToJson(const Neighbors& neighbors);
// Returns, for each of `rows_count` rows, an object with a member for each attribute. Requires:
// columns of that many rows.
std::vector<std::string> ToJson(std::span<const AttributeColumn> columns, size_t rows_count);

}  // namespace nearfield::client

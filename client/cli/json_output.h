// Text for programs: one JSON object a line.
#ifndef NEARFIELD_CLIENT_CLI_JSON_OUTPUT_H_
#define NEARFIELD_CLIENT_CLI_JSON_OUTPUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nearfield/client/replies.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Builds {"key":value,...} in the order of the calls.
class JsonObject {
 public:
  JsonObject& Add(std::string_view key, uint64_t value);
  JsonObject& Add(std::string_view key, int64_t value);
  JsonObject& Add(std::string_view key, int32_t value) { return Add(key, int64_t{value}); }
  JsonObject& Add(std::string_view key, uint32_t value) { return Add(key, uint64_t{value}); }
  JsonObject& Add(std::string_view key, bool value);
  // Six digits; null where absent. Finite.
  JsonObject& Add(std::string_view key, std::optional<double> value);
  JsonObject& Add(std::string_view key, std::string_view value);  // quoted
  JsonObject& Add(std::string_view key, const char* value) {
    return Add(key, std::string_view(value));
  }
  JsonObject& Add(std::string_view key, const Id& id);
  JsonObject& AddJson(std::string_view key, std::string_view json);  // as it is
  // "payload" with an object or array that the bytes spell, else with the text they are;
  // "payload_base64" where they are neither.
  JsonObject& AddPayload(std::string_view bytes);
  // Fields of another object, after these.
  JsonObject& Append(const JsonObject& other);

  std::string ToString() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

// %.9g, which names every fp32 value; infinities as the strings "inf" and "-inf", for which JSON
// has no number.
std::string JsonNumber(float value);
// The same for a person: without quotes.
std::string ScoreText(float score);

std::string JsonNumbers(std::span<const float> values);
std::string ToJson(const Id& id);
std::string ToJson(const IdColumn& ids);

JsonObject ToJson(const AttributeSpec& spec);
JsonObject ToJson(const CollectionInfo& info);
JsonObject ToJson(const SnapshotInfo& info);
JsonObject ToJson(const CompactAnswer& answer);
JsonObject ToJson(const Limits& limits);
JsonObject ToJson(const Capacity& capacity);
JsonObject ToJson(const ScanEscalations& escalations);
JsonObject ToJson(const Counters& counters);
JsonObject ToJson(const SearchCost& cost);
JsonObject ToJson(const VerifyAnswer& answer);
// [{"id":...,"score":...,"payload":...,"vector":[...]},...]
std::string ToJson(const Neighbors& neighbors);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_JSON_OUTPUT_H_

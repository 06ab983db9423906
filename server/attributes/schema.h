// AttributeSchema: the attributes that a collection declares.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/id_column.h"
#include "server/attributes/limits.h"

namespace nearfield::server {

// The numbers are stored (row_encoding.h): never reuse one.
enum class AttributeType : uint8_t {
  kInt64 = 1,
  kDouble = 2,  // any value except NaN
  kBool = 3,
  kKeyword = 4,    // compared as bytes
  kTimestamp = 5,  // microseconds since the Unix epoch, UTC
};

// Returns "int64", "double", "bool", "keyword" or "timestamp": for messages.
const char* NameOf(AttributeType type);

struct AttributeSpec {
  std::string name;  // [a-z][a-z0-9_]{0,62}
  AttributeType type = AttributeType::kInt64;
  bool is_list = false;
  bool expires = false;  // rows are deleted after the time that it holds
  bool dropped = false;  // keeps its number, so that stored rows can still be read

  friend bool operator==(const AttributeSpec& a, const AttributeSpec& b) = default;
};

// Returns "keyword" or "list of keyword", for example.
std::string Describe(const AttributeSpec& spec);

// Immutable. The number of an attribute is its position in the schema and never changes.
class AttributeSchema {
 public:
  // Creates a schema without attributes.
  AttributeSchema() = default;
  // Errors: InvalidArgument (malformed name, duplicate name, too many), as "attributes[3].name:
  // ...".
  static absl::StatusOr<AttributeSchema> Create(std::vector<AttributeSpec> specs,
                                                const AttributeLimits& limits);

  // Return this schema with one attribute more, and without one. Errors: as Create, of the field
  // "attribute"; NotFound.
  absl::StatusOr<AttributeSchema> With(const AttributeSpec& spec,
                                       const AttributeLimits& limits) const;
  absl::StatusOr<AttributeSchema> Without(std::string_view name) const;

  // Returns the number of attributes, dropped ones included.
  int32_t size() const { return static_cast<int32_t>(specs_.size()); }
  // Returns the numbers of the declared attributes, ascending.
  const std::vector<int32_t>& declared() const { return declared_; }
  // Returns the number of the attribute with which rows expire; nullopt if there is none.
  std::optional<int32_t> expires() const;
  // Requires: 0 <= attribute < size().
  const AttributeSpec& at(int32_t attribute) const {
    return specs_[static_cast<size_t>(attribute)];
  }
  // Returns the number of the declared attribute with this name; nullopt if there is none.
  std::optional<int32_t> Find(std::string_view name) const;

 private:
  // Adds an attribute, which the request names with `field`.
  absl::Status Add(AttributeSpec given, const std::string& field);
  // Checks the number of attributes, which the request names with `field`.
  absl::Status CheckCount(const std::string& field, const AttributeLimits& limits) const;

  std::vector<AttributeSpec> specs_;
  std::vector<int32_t> declared_;
  std::map<std::string, int32_t, std::less<>> numbers_;
};

// Returns a client's text for a message: quoted, escaped and cut to a readable length.
std::string QuoteText(std::string_view text);
// Returns an id for a message: a number, or as QuoteText.
std::string QuoteId(const IdColumn& ids, int64_t index);

}  // namespace nearfield::server

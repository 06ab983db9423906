// The attributes that a collection declares.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_SCHEMA_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_SCHEMA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/catalog/attributes/limits.h"

namespace nearfield::server {

// The numbers are part of what is stored (row_encoding.h): never reused.
enum class AttributeType : uint8_t {
  kInt64 = 1,
  kDouble = 2,  // any but NaN
  kBool = 3,
  kKeyword = 4,    // bytes, compared as such
  kTimestamp = 5,  // microseconds since the Unix epoch, UTC
};

// "int64", "double", "bool", "keyword", "timestamp": for messages.
const char* NameOf(AttributeType type);

struct AttributeSpec {
  std::string name;  // [a-z][a-z0-9_]{0,62}
  AttributeType type = AttributeType::kInt64;
  bool is_list = false;

  friend bool operator==(const AttributeSpec& a, const AttributeSpec& b) {
    return a.name == b.name && a.type == b.type && a.is_list == b.is_list;
  }
};

// "keyword", "list of keyword".
std::string Describe(const AttributeSpec& spec);

// Immutable. An attribute's place in the schema is its number; it never changes.
class AttributeSchema {
 public:
  // Declares nothing.
  AttributeSchema() = default;
  // Errors: InvalidArgument (a name's form, a name twice, too many), as "attributes[3].name: ...".
  static absl::StatusOr<AttributeSchema> Create(std::vector<AttributeSpec> specs,
                                                const AttributeLimits& limits);

  int32_t size() const { return static_cast<int32_t>(specs_.size()); }
  // Requires 0 <= attribute < size().
  const AttributeSpec& at(int32_t attribute) const {
    return specs_[static_cast<size_t>(attribute)];
  }
  // The number of the attribute with this name.
  std::optional<int32_t> Find(std::string_view name) const;

 private:
  std::vector<AttributeSpec> specs_;
  std::map<std::string, int32_t, std::less<>> numbers_;
};

// A client's text for a message: in quotes, escaped, cut to a readable length.
std::string QuoteText(std::string_view text);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_SCHEMA_H_

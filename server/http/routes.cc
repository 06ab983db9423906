#include "server/http/routes.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/convert/text.h"
#include "server/http/target.h"

namespace nearfield::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::array kRoutes = {
    Route{"GET", "/v1/limits", "nearfield.v1.Retrieval.GetLimits"},
    Route{"GET", "/v1/state", "nearfield.v1.Admin.GetServerState"},
    Route{"GET", "/v1/capacity", "nearfield.v1.Admin.GetCapacity"},
    Route{"GET", "/v1/counters", "nearfield.v1.Admin.GetCounters"},
    Route{"GET", "/v1/collections", "nearfield.v1.Admin.ListCollections"},
    Route{"GET", "/v1/collections/{name}", "nearfield.v1.Admin.GetCollection"},
    Route{"POST", "/v1/collections/{name}", "nearfield.v1.Admin.CreateCollection"},
    Route{"DELETE", "/v1/collections/{name}", "nearfield.v1.Admin.DropCollection"},
    Route{"POST", "/v1/collections/{collection}/search", "nearfield.v1.Retrieval.Search"},
    Route{"POST", "/v1/collections/{collection}/search_stream",
          "nearfield.v1.Retrieval.SearchStream"},
    Route{"POST", "/v1/collections/{search.collection}/search_all",
          "nearfield.v1.Retrieval.SearchAll"},
    Route{"POST", "/v1/collections/{collection}/fetch", "nearfield.v1.Retrieval.Fetch"},
    Route{"POST", "/v1/collections/{collection}/scan", "nearfield.v1.Retrieval.Scan"},
    Route{"POST", "/v1/collections/{collection}/count", "nearfield.v1.Retrieval.Count"},
    Route{"POST", "/v1/collections/{collection}/facets", "nearfield.v1.Retrieval.Facets"},
    Route{"POST", "/v1/collections/{collection}/pin_epoch", "nearfield.v1.Retrieval.PinEpoch"},
    Route{"POST", "/v1/collections/{collection}/verify", "nearfield.v1.Admin.Verify"},
    Route{"POST", "/v1/collections/{begin.collection}/upload", "nearfield.v1.Ingest.Upload"},
    Route{"GET", "/v1/collections/{collection}/upload", "nearfield.v1.Ingest.GetUpload"},
    Route{"DELETE", "/v1/collections/{collection}/upload", "nearfield.v1.Ingest.DropUpload"},
    Route{"POST", "/v1/collections/{collection}/delete", "nearfield.v1.Ingest.Delete"},
    Route{"POST", "/v1/collections/{collection}/update", "nearfield.v1.Ingest.Update"},
    Route{"POST", "/v1/collections/{collection}/compact", "nearfield.v1.Admin.Compact"},
    Route{"POST", "/v1/collections/{collection}/attributes", "nearfield.v1.Admin.AddAttribute"},
    Route{"DELETE", "/v1/collections/{collection}/attributes/{attribute}",
          "nearfield.v1.Admin.DropAttribute"},
    Route{"PUT", "/v1/aliases/{alias}", "nearfield.v1.Admin.SetAlias"},
    Route{"DELETE", "/v1/aliases/{alias}", "nearfield.v1.Admin.DropAlias"},
    Route{"GET", "/v1/uploads", "nearfield.v1.Ingest.ListUploads"},
    Route{"GET", "/v1/snapshots", "nearfield.v1.Admin.ListSnapshots"},
    Route{"POST", "/v1/snapshots/{name}", "nearfield.v1.Admin.CreateSnapshot"},
    Route{"DELETE", "/v1/snapshots/{name}", "nearfield.v1.Admin.DeleteSnapshot"},
};

// Takes the text up to the next '/' off the path. Requires: the path begins with '/'.
std::string_view TakeSegment(std::string_view* path) {
  path->remove_prefix(1);
  const std::string_view segment = path->substr(0, path->find('/'));
  path->remove_prefix(segment.size());
  return segment;
}

// Fills the fields of a path that has the form of the pattern. Returns false if it has not.
bool Matches(std::string_view pattern, std::string_view path, PathFields* fields) {
  while (!pattern.empty() && !path.empty() && path.front() == '/') {
    const std::string_view wanted = TakeSegment(&pattern);
    const std::string_view segment = TakeSegment(&path);
    if (wanted.front() != '{') {
      if (wanted != segment) return false;
      continue;
    }
    std::optional<std::string> value = PercentDecoded(segment, false);
    if (!value.has_value() || value->empty() || !IsUtf8(*value)) return false;
    fields->emplace_back(wanted.substr(1, wanted.size() - 2), *std::move(value));
  }
  return pattern.empty() && path.empty();
}

absl::Status SetField(std::string_view name, const std::string& value, Message* message) {
  const size_t dot = name.find('.');
  const FieldDescriptor* const field =
      message->GetDescriptor()->FindFieldByName(std::string(name.substr(0, dot)));
  CHECK(field != nullptr);  // a test compares the routes with the descriptors
  const Reflection& reflection = *message->GetReflection();
  if (dot != std::string_view::npos) {
    if (field->containing_oneof() != nullptr && !reflection.HasField(*message, field)) {
      return absl::OkStatus();
    }
    return SetField(name.substr(dot + 1), value, reflection.MutableMessage(message, field));
  }
  const std::string given = reflection.GetString(*message, field);
  if (!given.empty() && given != value) {
    return MustBe(field->name(), Quote(given), absl::StrCat(Quote(value), " as in the path"));
  }
  reflection.SetString(message, field, value);
  return absl::OkStatus();
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

RouteMatch FindRoute(std::string_view verb, std::string_view path) {
  RouteMatch match;
  for (const Route& route : kRoutes) {
    PathFields fields;
    if (!Matches(route.path, path, &fields)) continue;
    if (route.verb == verb) return {.route = &route, .fields = std::move(fields), .allow = {}};
    absl::StrAppend(&match.allow, match.allow.empty() ? "" : ", ", std::string(route.verb));
  }
  return match;
}

absl::Status SetPathFields(const PathFields& fields, Message* request) {
  for (const auto& [name, value] : fields) {
    ABSL_RETURN_IF_ERROR(SetField(name, value, request));
  }
  return absl::OkStatus();
}

absl::Status FromQuery(std::string_view query, const ReserveBytes& reserve, Message* request) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [name, value] : ParametersIn(query)) {
    const std::optional<std::string> text = PercentDecoded(value, true);
    const std::string key(name);
    if (!text.has_value() || !IsUtf8(*text) || !IsUtf8(key)) {
      return ArgumentError("query", "has an invalid %XX, or is not UTF-8");
    }
    if (key.empty()) return ArgumentError("query", "a parameter without a name");
    if (fields.contains(key)) return ArgumentError(key, "given more than once");
    fields[key] = *text;
  }
  return FromJson(fields.dump(), reserve, request);
}

}  // namespace nearfield::server

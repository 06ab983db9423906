// The routes of the HTTP port: one table from method and path to the call.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/http/json_reader.h"

namespace nearfield::server {

struct Route {
  std::string_view verb;  // the method of HTTP
  // A segment in braces is the value of that field of the request; "a.b" is the field b of the
  // message a.
  std::string_view path;
  std::string_view rpc;  // the full name of the method

  // Returns true if the request is the body; false: its fields are parameters of the query.
  bool takes_body() const { return verb == "POST" || verb == "PUT"; }
};

// Every RPC.
std::span<const Route> Routes();

// Values of fields by name, from the path.
using PathFields = std::vector<std::pair<std::string_view, std::string>>;

struct RouteMatch {
  const Route* route = nullptr;  // null: `allow` says why
  PathFields fields;
  std::string allow;  // the methods of the path, "GET, DELETE"; empty: there is no such path
};

// Finds the route of a method and a path, which is not decoded.
RouteMatch FindRoute(std::string_view verb, std::string_view path);

// Sets the fields of the path in a request. A member of a oneof is set only if that member is
// given. Errors: InvalidArgument (the request itself names another value).
absl::Status SetPathFields(const PathFields& fields, google::protobuf::Message* request);

// Reads a request from the parameters of a query, which name its fields. Errors: InvalidArgument
// (an unknown or repeated parameter, or a value of another type), those of `reserve`.
absl::Status FromQuery(std::string_view query, const ReserveBytes& reserve,
                       google::protobuf::Message* request);

}  // namespace nearfield::server

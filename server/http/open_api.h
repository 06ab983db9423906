// The OpenAPI document of the HTTP port, made from the routes and the descriptors of the messages.
#pragma once

#include <string>

namespace nearfield::server {

inline constexpr char kOpenApiPath[] = "/openapi.json";

// Returns an OpenAPI 3.0 document. It is made once.
const std::string& OpenApiJson();

}  // namespace nearfield::server

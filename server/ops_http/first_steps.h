// How the page reaches this server: the HTTP port for its searches, and for a visitor of an empty
// server lines of code that make a collection and search it.
#pragma once

#include <string>

#include "server/config/settings.h"

namespace nearfield::server {

struct ServerAddress {
  const Settings* settings = nullptr;
  int port = 0;       // bound for gRPC; 0: a Unix socket
  int http_port = 0;  // bound for HTTP and JSON; 0: there is none
  bool needs_key = false;
};

// Returns JSON: "address", "python" and "shell" (code), "files", what to put into the files that
// the code names, if any, and "search": "url" of the HTTP port, absent if the page cannot search
// there, "needs_key", and "note", a text for the visitor. `host`: the Host of the request; it
// replaces a wildcard address.
std::string FirstStepsJson(const ServerAddress& server, const std::string& host);

}  // namespace nearfield::server

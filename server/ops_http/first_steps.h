// The lines of code that a visitor of an empty server can copy: they make a collection on this
// server and search it.
#pragma once

#include <string>

#include "server/config/settings.h"

namespace nearfield::server {

struct ServerAddress {
  const Settings* settings = nullptr;
  int port = 0;  // bound for gRPC; 0: a Unix socket
  bool needs_key = false;
};

// Returns JSON: "address", "python" and "shell" (code), and "files", what to put into the files
// that the code names, if any. `host`: the Host of the request; it replaces a wildcard address.
std::string FirstStepsJson(const ServerAddress& server, const std::string& host);

}  // namespace nearfield::server

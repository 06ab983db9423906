// Liveness and readiness of a server, for probes.
#pragma once

#include <string>

#include "server/rpc/server_state.h"
#include "server/security/certificates.h"

namespace nearfield::server {

// Returns true if the server answers every call: it serves, and no answer was proven wrong.
bool IsReady(const ServerState& state);
// Returns true unless a restart is the only remedy: the device is lost. A server that loads, drains
// or is not trusted any more is alive.
bool IsAlive(const ServerState& state);

// Returns a JSON object: whether the server is ready, its phase, why it does not serve, how far its
// start is, the collections that it cannot read, at most 100 of them, and why the newest files of
// the certificate are not in force. `certificates`: null without TLS.
std::string ReadinessJson(ServerState* state, const Certificates* certificates);

}  // namespace nearfield::server

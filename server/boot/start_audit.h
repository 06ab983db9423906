// StartAudit: connects the audit to a server's settings, alarm and log.
#pragma once

#include <memory>

#include "server/audit/audit.h"
#include "server/rpc/health_state.h"
#include "server/rpc/server_state.h"

namespace nearfield::server {

// Starts the audit with the settings of `state`. All arguments outlive the audit.
std::unique_ptr<Audit> StartAudit(Core* core, ServerState* state, HealthState* health);

}  // namespace nearfield::server

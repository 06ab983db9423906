// StartAudit: connects the audit to a server's settings, alarm and log.
#pragma once

#include <memory>

#include "server/audit/audit.h"
#include "server/calls/health_state.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

// Starts the audit with the settings of `state`. All arguments outlive the audit.
std::unique_ptr<Audit> StartAudit(Core* core, ServerState* state, HealthState* health);

}  // namespace nearfield::server

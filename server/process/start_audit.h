// StartAudit: connects the audit to a server's settings, alarm and log.
#ifndef NEARFIELD_SERVER_PROCESS_START_AUDIT_H_
#define NEARFIELD_SERVER_PROCESS_START_AUDIT_H_

#include <memory>

#include "server/audit/audit.h"
#include "server/calls/server_state.h"
#include "server/service/health_service.h"

namespace nearfield::server {

// Starts the audit with the settings of `state`. All arguments outlive the audit.
std::unique_ptr<Audit> StartAudit(Core* core, ServerState* state, HealthService* health);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_PROCESS_START_AUDIT_H_

// The metrics of a server. All figures are read from the counters that Admin.GetCounters and
// Admin.GetCapacity read; none is counted here.
#pragma once

#include "server/ops_http/metric_set.h"
#include "server/rpc/server_state.h"
#include "server/security/certificates.h"

namespace nearfield::server {

// Adds the process, its phase and the progress of its start. In every phase.
void AddProcessMetrics(ServerState* state, MetricSet* metrics);
// Adds calls, refusals, connections and uploads. In every phase.
void AddCallMetrics(ServerState* state, MetricSet* metrics);
// Adds the certificate in force and the failures to replace it.
void AddCertificateMetrics(const Certificates::State& state, MetricSet* metrics);
// Adds the bytes of each memory next to its limit, and the free space of each directory. `core`:
// null before the server serves.
void AddMemoryMetrics(ServerState* state, Core* core, MetricSet* metrics);
void AddDiskMetrics(const Settings& settings, MetricSet* metrics);
// Adds the queue and the passes of the engine.
void AddEngineMetrics(const Settings& settings, const Core& core, MetricSet* metrics);
void AddAuditMetrics(const Core& core, MetricSet* metrics);

}  // namespace nearfield::server

#include "server/ops_http/server_metrics.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "server/ops_http/readiness.h"

namespace nearfield::server {
namespace {

constexpr double kSecondsPerUs = 1e-6;
constexpr ServerState::Phase kPhases[] = {ServerState::Phase::kStarting,
                                          ServerState::Phase::kServing,
                                          ServerState::Phase::kDraining, ServerState::Phase::kLost};

double Number(int64_t value) { return static_cast<double>(value); }

// Returns the resident bytes of this process; 0 if /proc cannot be read.
double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  return Number(resident * sysconf(_SC_PAGESIZE));
}

// Returns the number of entries of a folder of /proc.
double EntriesOf(const char* folder) {
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return Number(count);
}

void AddLoading(const BootProgress::View& view, MetricSet* metrics) {
  const char* const kCollections = "Collections that the start has loaded.";
  const char* const kBytes = "Bytes that the start has read.";
  metrics->Gauge("nearfield_loading_collections", kCollections,
                 Number(view.loading.collections_loaded));
  metrics->Gauge("nearfield_loading_collections_expected", "Collections that the start loads.",
                 Number(view.loading.collections_count));
  metrics->Gauge("nearfield_loading_bytes", kBytes, Number(view.loading.bytes_read));
  metrics->Gauge("nearfield_loading_bytes_expected", "Bytes that the start reads.",
                 Number(view.loading.bytes_total));
}

void AddMemory(const std::string& memory, double used, double limit, MetricSet* metrics) {
  metrics->Gauge("nearfield_memory_bytes", "Bytes in use or reserved, by memory.", used,
                 {{"memory", memory}});
  metrics->Gauge("nearfield_memory_bytes_max", "Limit of nearfield_memory_bytes.", limit,
                 {{"memory", memory}});
}

void AddDisk(const std::string& name, const std::string& path, MetricSet* metrics) {
  struct statvfs disk = {};
  if (path.empty() || statvfs(path.c_str(), &disk) != 0) return;
  const auto block = static_cast<double>(disk.f_frsize);
  metrics->Gauge("nearfield_disk_free_bytes",
                 "Bytes that the server may still write, by directory.",
                 static_cast<double>(disk.f_bavail) * block, {{"dir", name}});
  metrics->Gauge("nearfield_disk_bytes", "Bytes of the file system, by directory.",
                 static_cast<double>(disk.f_blocks) * block, {{"dir", name}});
}

}  // namespace

void AddProcessMetrics(ServerState* state, MetricSet* metrics) {
  const auto since_epoch = state->started().time_since_epoch();
  metrics->Gauge("nearfield_info", "Constant 1; the version as a label.", 1,
                 {{"version", NEARFIELD_VERSION}});
  metrics->Gauge("process_start_time_seconds", "Start of the server, in seconds since 1970.",
                 std::chrono::duration<double>(since_epoch).count());
  metrics->Gauge("process_resident_memory_bytes", "Resident memory of the process.",
                 ResidentBytes());
  metrics->Gauge("process_open_fds", "Open file descriptors.", EntriesOf("/proc/self/fd"));
  rlimit descriptors = {};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  metrics->Gauge("process_max_fds", "Limit of open file descriptors.",
                 static_cast<double>(descriptors.rlim_cur));
  metrics->Gauge("process_threads", "Threads of the process.", EntriesOf("/proc/self/task"));
  const ServerState::Phase phase = state->phase();
  for (const ServerState::Phase each : kPhases) {
    metrics->Gauge("nearfield_phase", "1 for the phase of the server, else 0.",
                   each == phase ? 1 : 0, {{"phase", NameOf(each)}});
  }
  metrics->Gauge("nearfield_ready", "1 if the server serves, as /readyz.", IsReady(*state) ? 1 : 0);
  metrics->Gauge("nearfield_trusted", "0 after an answer or a row was proven wrong, else 1.",
                 state->distrusted() ? 0 : 1);
  metrics->Gauge("nearfield_exposed",
                 "1 if callers beyond loopback need no TLS or no key (allow_insecure), else 0.",
                 state->settings().IsExposed() ? 1 : 0);
  metrics->Counter("nearfield_log_lines_dropped_total",
                   "Log lines dropped because the reader of stderr was too slow.",
                   Number(state->log()->dropped()));
  AddLoading(state->boot_progress().Get(), metrics);
}

void AddCallMetrics(ServerState* state, MetricSet* metrics) {
  std::map<std::string, CallCount> by_method;
  for (const auto& [key, count] : state->call_counter().counts()) {
    const auto& [method, status] = key;
    metrics->Counter("nearfield_calls_total", "Calls that ended, by method and status.",
                     Number(count.total_us.count()), {{"method", method}, {"status", status}});
    CallCount& sum = by_method[method];
    sum.rows += count.rows;
    sum.total_us.Add(count.total_us);
  }
  for (const auto& [method, count] : by_method) {
    metrics->Counter("nearfield_call_rows_total",
                     "Rows returned, uploaded, deleted or checked, by method.", Number(count.rows),
                     {{"method", method}});
    metrics->AddHistogram("nearfield_call_duration_seconds",
                          "Time of a call in the server; a stream is one call.", count.total_us,
                          kSecondsPerUs, {{"method", method}});
  }
  for (const auto& [method, times] : state->call_counter().engine_times()) {
    metrics->AddHistogram("nearfield_call_queue_seconds",
                          "Wait for the device, summed over the searches of a call.",
                          times.queue_us, kSecondsPerUs, {{"method", method}});
    metrics->AddHistogram("nearfield_call_device_seconds",
                          "Time of its passes on the device, summed over the searches of a call.",
                          times.device_us, kSecondsPerUs, {{"method", method}});
  }
  for (const auto& [reason, count] : state->call_counter().refusals()) {
    metrics->Counter("nearfield_refusals_total",
                     "Refused calls, by the setting or the state that they met.", Number(count),
                     {{"reason", reason}});
  }
  const AcceptCounts connections = state->connection_counts();
  metrics->Gauge("nearfield_connections", "Open gRPC connections.", Number(connections.open));
  metrics->Gauge("nearfield_connections_max", "The setting connections_max.",
                 Number(state->settings().connections_max.value()));
  metrics->Counter("nearfield_connections_accepted_total", "Accepted gRPC connections.",
                   Number(connections.accepted));
  metrics->Counter("nearfield_connections_refused_total",
                   "Connections closed because connections_max were open.",
                   Number(connections.refused));
  metrics->Counter("nearfield_accept_pauses_total",
                   "Pauses of accepting for lack of descriptors or memory.",
                   Number(connections.pauses));
  metrics->Gauge("nearfield_uploads", "Uploads in progress.",
                 Number(state->upload_places().count()));
  metrics->Gauge("nearfield_uploads_max", "The setting uploads_max.",
                 Number(state->settings().uploads_max.value()));
}

void AddCertificateMetrics(const Certificates::State& state, MetricSet* metrics) {
  metrics->Gauge("nearfield_certificate_expires_timestamp_seconds",
                 "End of the validity of the certificate in force, in seconds since 1970.",
                 Number(state.expires_unix_s));
  metrics->Gauge("nearfield_certificate_replaced",
                 "0 if the newest files of the certificate are not in force, else 1.",
                 state.latest.ok() ? 1 : 0);
  metrics->Counter("nearfield_certificate_failures_total",
                   "Looks at the files of the certificate that found no valid pair.",
                   Number(state.failures_count));
}

void AddMemoryMetrics(ServerState* state, Core* core, MetricSet* metrics) {
  const auto ledger = [&](const char* name, const ByteAccount& account) {
    AddMemory(name, Number(account.bytes()), Number(account.bytes_max()), metrics);
  };
  ledger("replies", state->ledger().replies);
  ledger("requests", state->ledger().requests);
  if (core == nullptr) return;
  const Capacity capacity = core->engine->GetCapacity();
  const auto memory = [&](const char* name, int64_t used, int64_t total) {
    AddMemory(name, Number(used), Number(total), metrics);
  };
  memory("device", capacity.device_bytes_used, capacity.device_bytes_total);
  for (const DeviceCapacity& device : capacity.devices) {  // parts of the one before
    memory(absl::StrCat("device ", device.name).c_str(), device.bytes_used, device.bytes_total);
  }
  memory("host", capacity.host_bytes_used, capacity.host_bytes_total);
  if (capacity.host_rows_bytes_total > 0) {
    memory("host_rows", capacity.host_rows_bytes_used, capacity.host_rows_bytes_total);
  }
  // Part of the three memories above.
  const HeldBytes kept = core->pinned_snapshots.bytes();
  const HeldBytes& kept_max = core->pinned_snapshots.bytes_max();
  memory("kept_epochs_device", kept.device, kept_max.device);
  memory("kept_epochs_host", kept.host, kept_max.host);
  metrics->Gauge("nearfield_kept_epochs", "Earlier epochs kept for cursors, scans and PinEpoch.",
                 Number(core->pinned_snapshots.epochs_count()));
  metrics->Gauge("nearfield_kept_epochs_max", "Limit of nearfield_kept_epochs.",
                 Number(core->pinned_snapshots.epochs_total_max()));
  const AttributeShared& attributes = core->catalog.attributes();
  memory("attributes", attributes.memory_bytes.load(), attributes.memory_bytes_max);
  const FilterCache::Stats cache = attributes.cache.stats();
  memory("filter_cache", cache.bytes, state->settings().filter_cache_bytes.value());
  memory("term_numbers", attributes.numbers.bytes(), state->settings().term_memory_bytes.value());
  memory("queue", core->queue.waiting_bytes(), state->settings().queue_bytes_max.value());
  const char* const kLookups = "Look-ups in the cache of filter results.";
  metrics->Counter("nearfield_filter_cache_total", kLookups, Number(cache.hits),
                   {{"result", "hit"}});
  metrics->Counter("nearfield_filter_cache_total", kLookups, Number(cache.misses),
                   {{"result", "miss"}});
}

void AddDiskMetrics(const Settings& settings, MetricSet* metrics) {
  if (settings.keeps_data()) AddDisk("data", settings.data_dir.value(), metrics);
  AddDisk("snapshots", settings.snapshot_dir.value(), metrics);
}

void AddEngineMetrics(const Settings& settings, const Core& core, MetricSet* metrics) {
  const EngineInfo info = core.engine->Info();
  metrics->Gauge("nearfield_device_info", "Constant 1; the device that computes as labels.", 1,
                 {{"backend", info.backend == BackendKind::kGpu ? "gpu" : "cpu"},
                  {"device", info.device_name}});
  metrics->Gauge("nearfield_device_read_bytes_per_second",
                 "Bandwidth of the device's memory; 0: unknown.", info.read_bytes_per_second);
  metrics->Gauge("nearfield_queue_searches", "Searches that wait for the device.",
                 Number(core.queue.waiting()));
  metrics->Gauge("nearfield_queue_searches_max", "The setting queue_requests_max.",
                 Number(settings.queue_requests_max.value()));
  metrics->Gauge("nearfield_epoch_waits", "Calls that wait for a min_epoch.",
                 Number(core.epoch_waiters.waiting()));
  const PassCounts passes = core.pass_counter.counts();
  for (const auto& [precision, queries] : passes.queries) {
    metrics->AddHistogram("nearfield_batch_queries",
                          "Queries that shared a pass, by what most of them scanned.", queries, 1,
                          {{"scan", precision == ScanPrecision::kInt8 ? "int8" : "rows"}});
  }
  metrics->Counter("nearfield_device_busy_seconds_total", "Time of passes on the device.",
                   Number(passes.device_us) * kSecondsPerUs);
  metrics->Counter("nearfield_scan_bytes_total", "Bytes of rows and codes that passes read.",
                   Number(passes.bytes_read));
  metrics->Counter("nearfield_candidates_total", "Rows that selection examined.",
                   Number(passes.candidates));
  const char* const kEscalations = "Queries that needed a slower path, by the path.";
  metrics->Counter("nearfield_escalations_total", kEscalations, Number(passes.escalations.tighter),
                   {{"path", "tighter"}});
  metrics->Counter("nearfield_escalations_total", kEscalations,
                   Number(passes.escalations.canonical), {{"path", "canonical"}});
}

void AddAuditMetrics(const Core& core, MetricSet* metrics) {
  const AuditCounts audit = core.audit->auditor.counts();
  const auto answers = [&](const char* result, int64_t count) {
    metrics->Counter("nearfield_audit_answers_total",
                     "Sampled answers: audited, dropped or failed to check.", Number(count),
                     {{"result", result}});
  };
  answers("audited", audit.answers_audited);
  answers("dropped", audit.answers_dropped);
  answers("failed", audit.answers_failed);
  metrics->Counter("nearfield_audit_mismatches_total", "Answers that the audit proved wrong.",
                   Number(audit.mismatches));
  metrics->Counter("nearfield_audit_rows_total", "Rows that the oracle scored for the audit.",
                   Number(audit.rows_checked));
  metrics->Counter("nearfield_audit_busy_seconds_total", "Time of the audit's thread.",
                   Number(audit.busy_us) * kSecondsPerUs);
  metrics->Gauge("nearfield_audit_records",
                 "Records of wrong answers and rows in audit_dir, also of earlier processes.",
                 Number(core.audit->alarm.RecordsCount()));
  const ScrubCounts& scrub = core.audit->scrubber.counts();
  metrics->Counter("nearfield_scrub_passes_total", "Complete scrubs of all collections.",
                   Number(scrub.passes));
  metrics->Counter("nearfield_scrub_rows_total", "Rows that were equal in memory and on disk.",
                   Number(scrub.rows));
  metrics->Counter("nearfield_scrub_rows_skipped_total", "Rows that changed during their scrub.",
                   Number(scrub.rows_skipped));
  metrics->Counter("nearfield_scrub_bytes_total", "Bytes that the scrub compared.",
                   Number(scrub.bytes));
  metrics->Counter("nearfield_scrub_mismatches_total", "Rows that the scrub proved wrong.",
                   Number(scrub.mismatches));
  metrics->Counter("nearfield_scrub_files_damaged_total",
                   "Stored blocks with a wrong checksum that the scrub found.",
                   Number(scrub.files_damaged));
}

}  // namespace nearfield::server

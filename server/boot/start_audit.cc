#include "server/boot/start_audit.h"

#include <chrono>
#include <string>
#include <utility>

namespace nearfield::server {
namespace {

AuditOptions OptionsOf(const Settings& settings) {
  return {.auditor = {.one_in = settings.audit_one_in.value(),
                      .cpu_percent = settings.audit_cpu_percent.value()},
          .scrubber = {.interval = std::chrono::seconds(settings.scrub_interval_s.value()),
                       .bytes_per_second = settings.scrub_bytes_per_second.value()}};
}

Alarm::Options AlarmOptionsOf(const Core& core, ServerState* state, HealthState* health) {
  Alarm::Options options;
  options.server_version = NEARFIELD_VERSION;
  options.engine = core.engine->Info();
  options.record_dir = state->settings().AuditDir();
  options.stop = [state, health] {
    state->Distrust();
    health->Withdraw();
  };
  options.report = [log = state->log()](const std::string& what,
                                        const absl::StatusOr<std::string>& record) {
    log->Write(LogLevel::kError, "a wrong answer or row was found: nothing is answered any more",
               {{"what", what},
                {"record", record.ok() ? *record : ""},
                {"record_error", record.ok() ? "" : record.status().ToString()}});
    log->Flush();
  };
  return options;
}

void LogAudit(Log* log, const AuditCounts& counts) {
  log->Write(LogLevel::kInfo, "audit",
             {{"answers_audited", counts.answers_audited},
              {"answers_dropped", counts.answers_dropped},
              {"answers_failed", counts.answers_failed},
              {"mismatches", counts.mismatches},
              {"rows_checked", counts.rows_checked},
              {"busy_us", counts.busy_us}});
}

void LogScrub(Log* log, const ScrubCounts& counts) {
  log->Write(LogLevel::kInfo, "scrub",
             {{"passes", counts.passes.load()},
              {"rows", counts.rows.load()},
              {"rows_skipped", counts.rows_skipped.load()},
              {"bytes", counts.bytes.load()},
              {"mismatches", counts.mismatches.load()},
              {"files_damaged", counts.files_damaged.load()}});
}

}  // namespace

std::unique_ptr<Audit> StartAudit(Core* core, ServerState* state, HealthState* health) {
  Log* const log = state->log();
  AuditBase base;
  base.engine = core->engine.get();
  base.clock = &state->clock();
  base.collections = [core] { return core->catalog.List(); };
  base.report_audit = [log](const AuditCounts& counts) { LogAudit(log, counts); };
  base.report_scrub = [log](const ScrubCounts& counts) { LogScrub(log, counts); };
  base.scrub_failed = [log, health](const std::string& collection, const absl::Status& status) {
    health->Refresh();
    log->Write(absl::IsDataLoss(status) ? LogLevel::kError : LogLevel::kWarning,
               "a collection could not be compared with the data directory",
               {{"collection", collection}, {"error", status.ToString()}});
  };
  auto audit = std::make_unique<Audit>(OptionsOf(state->settings()), std::move(base),
                                       AlarmOptionsOf(*core, state, health));
  if (const int64_t records = audit->alarm.RecordsCount(); records > 0) {
    log->Write(LogLevel::kWarning,
               "audit_dir has records of earlier mismatches: examine them, then move them away",
               {{"audit_dir", state->settings().AuditDir()}, {"records", records}});
  }
  return audit;
}

}  // namespace nearfield::server

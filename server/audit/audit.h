// Audit: checks the result contract in production. Compares a sample of the answers with the
// oracle, and the resident rows with the store. README.md describes it.
#pragma once

#include "server/audit/alarm.h"
#include "server/audit/auditor.h"
#include "server/audit/pace.h"
#include "server/audit/scrubber.h"

namespace nearfield::server {

// The objects that the audit checks and its callbacks. All outlive the audit.
struct AuditBase {
  Engine* engine = nullptr;
  const Clock* clock = nullptr;
  std::function<std::vector<NamedCollectionPtr>()> collections;
  Auditor::Report report_audit = [](const AuditCounts&) {};
  std::function<void(const ScrubCounts&)> report_scrub = [](const ScrubCounts&) {};
  std::function<void(const std::string& collection, const absl::Status&)> scrub_failed =
      [](const std::string&, const absl::Status&) {};
};

struct AuditOptions {
  AuditorOptions auditor;
  ScrubberOptions scrubber;
};

class Audit {
 public:
  Audit(const AuditOptions& options, AuditBase base, Alarm::Options alarm_options)
      : alarm(std::move(alarm_options)),
        auditor(options.auditor, base.engine, base.clock, &alarm, std::move(base.report_audit)),
        scrubber(options.scrubber, {.collections = std::move(base.collections),
                                    .clock = base.clock,
                                    .pace = &pace_,
                                    .alarm = &alarm,
                                    .report = std::move(base.report_scrub),
                                    .failed = std::move(base.scrub_failed)}) {}

 private:
  SteadyPace pace_;

 public:
  // Destroyed in reverse order, so the threads end first.
  Alarm alarm;
  Auditor auditor;
  Scrubber scrubber;
};

}  // namespace nearfield::server

// RequestLog: writes one line for each request that its policy selects, with the peer's address,
// the status and times. Never logs vectors, ids of rows or payloads.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/telemetry/log.h"
#include "server/telemetry/trace_context.h"

namespace nearfield::server {

struct RequestRecord {
  std::string request_id;
  TraceContext trace;      // of the caller
  std::string method;      // "Search"
  std::string collection;  // as the client named it
  std::string peer;
  std::string principal;  // the holder of the key that the call was made with; empty: no key
  std::string key_id;
  bool audited = false;  // the call gets an access line
  int64_t queries = 0;
  int64_t k = 0;
  int64_t rows = 0;  // returned, uploaded, deleted or checked
  int64_t queue_us = 0;
  int64_t device_us = 0;
  int64_t total_us = 0;
  // The data that its searches scanned: "rows", "int8" (codes), or "mixed" in a stream with both;
  // empty without a search. The escalations are the queries of its passes that needed a slower path
  // (ScanEscalations).
  std::string scan;
  int64_t escalations_tighter = 0;
  int64_t escalations_canonical = 0;
};

// Returns true if the line of the call is one of the access log: "access" instead of "request". It
// has the calls that administer the server, and those that were refused for lack of a key or of its
// rights.
bool IsAccessLine(const RequestRecord& record, const absl::Status& status);

// Writes the line of a call. Successes and refusals have level info, refusals for lack of rights
// level warning. Faults of the server (Internal, DataLoss, Unknown) have level error.
void LogRequest(Log* log, const RequestRecord& record, const absl::Status& status);

// Selects the calls that get a line; access lines are always written.
struct RequestLogPolicy {
  bool all = true;
  // If `all` is false: logs calls that failed, calls that took at least `slow_us`, and one in
  // `sample` of the others (0: none of them).
  int64_t slow_us = 0;
  int64_t sample = 0;
};

// Thread-safe.
class RequestLog {
 public:
  // `log` outlives this object.
  RequestLog(Log* log, const RequestLogPolicy& policy) : log_(log) { SetPolicy(policy); }
  void SetPolicy(const RequestLogPolicy& policy);
  void Record(const RequestRecord& record, const absl::Status& status);

 private:
  bool ShouldLog(const RequestRecord& record, const absl::Status& status);

  Log* const log_;
  std::atomic<bool> all_{true};
  std::atomic<int64_t> slow_us_{0};
  std::atomic<int64_t> sample_{0};
  std::atomic<int64_t> others_{0};  // calls that neither failed nor were slow
};

// Returns the client's id if it is 1 .. 128 printable ASCII characters without blanks, else a new
// random one.
std::string RequestId(std::string_view from_client);

}  // namespace nearfield::server

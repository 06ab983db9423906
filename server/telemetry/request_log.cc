#include "server/telemetry/request_log.h"

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace nearfield::server {
namespace {

constexpr size_t kRequestIdBytesMax = 128;
constexpr size_t kLoggedTextBytesMax = 200;

std::string Cut(const std::string& text) { return text.substr(0, kLoggedTextBytesMax); }

LogLevel LevelOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown: return LogLevel::kError;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied: return LogLevel::kWarning;
    default: return LogLevel::kInfo;
  }
}

}  // namespace

bool IsAccessLine(const RequestRecord& record, const absl::Status& status) {
  return record.audited || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

void LogRequest(Log* log, const RequestRecord& record, const absl::Status& status) {
  const LogLevel level = LevelOf(status);
  if (!log->Enabled(level)) return;
  std::vector<LogField> fields = {{"request_id", record.request_id},
                                  {"method", record.method},
                                  {"collection", Cut(record.collection)},
                                  {"status", absl::StatusCodeToString(status.code())},
                                  {"queries", record.queries},
                                  {"k", record.k},
                                  {"rows", record.rows},
                                  {"queue_us", record.queue_us},
                                  {"device_us", record.device_us},
                                  {"total_us", record.total_us},
                                  {"scan", record.scan},
                                  {"escalations_tighter", record.escalations_tighter},
                                  {"escalations_canonical", record.escalations_canonical},
                                  {"peer", Cut(record.peer)}};
  if (!record.trace.trace_id.empty()) {
    fields.push_back({"trace_id", record.trace.trace_id});
    fields.push_back({"parent_span_id", record.trace.span_id});
  }
  if (!record.principal.empty()) {
    fields.push_back({"principal", record.principal});
    fields.push_back({"key", record.key_id});
  }
  if (!status.ok()) fields.push_back({"error", Cut(std::string(status.message()))});
  log->Write(level, IsAccessLine(record, status) ? "access" : "request", fields);
}

void RequestLog::SetPolicy(const RequestLogPolicy& policy) {
  all_ = policy.all;
  slow_us_ = policy.slow_us;
  sample_ = policy.sample;
}

bool RequestLog::ShouldLog(const RequestRecord& record, const absl::Status& status) {
  if (all_ || !status.ok() || record.total_us >= slow_us_) return true;
  const int64_t sample = sample_;
  return sample > 0 && others_.fetch_add(1, std::memory_order_relaxed) % sample == 0;
}

void RequestLog::Record(const RequestRecord& record, const absl::Status& status) {
  if (IsAccessLine(record, status) || ShouldLog(record, status)) LogRequest(log_, record, status);
}

std::string RequestId(std::string_view from_client) {
  const auto printable = [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); };
  if (!from_client.empty() && from_client.size() <= kRequestIdBytesMax &&
      std::all_of(from_client.begin(), from_client.end(), printable)) {
    return std::string(from_client);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad16));
}

}  // namespace nearfield::server

#include "server/telemetry/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace nearfield::server {
namespace {

constexpr std::array kLevelNames = {"debug", "info", "warning", "error"};

const char* NameOf(LogLevel level) { return kLevelNames.at(static_cast<size_t>(level)); }

// Wall clock, UTC, to the microsecond.
std::string Timestamp() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
}

bool NeedsQuotes(const std::string& text) {
  for (const char c : text) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == '\x7f') return true;
  }
  return text.empty();
}

std::string TextLine(LogLevel level, const std::string& message,
                     const std::vector<LogField>& fields) {
  std::string line =
      absl::StrCat(Timestamp(), " ", NameOf(level), " ", absl::Utf8SafeCHexEscape(message));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.name, "=");
    if (const auto* number = std::get_if<int64_t>(&field.value)) {
      absl::StrAppend(&line, *number);
      continue;
    }
    const std::string& text = std::get<std::string>(field.value);
    if (NeedsQuotes(text)) {
      absl::StrAppend(&line, "\"", absl::Utf8SafeCHexEscape(text), "\"");
    } else {
      absl::StrAppend(&line, text);
    }
  }
  return line;
}

std::string JsonLine(LogLevel level, const std::string& message,
                     const std::vector<LogField>& fields) {
  nlohmann::ordered_json line;
  line["time"] = Timestamp();
  line["level"] = NameOf(level);
  line["message"] = message;
  for (const LogField& field : fields) {
    if (const auto* number = std::get_if<int64_t>(&field.value)) {
      line[field.name] = *number;
    } else {
      line[field.name] = std::get<std::string>(field.value);
    }
  }
  return line.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

// spdlog keeps lines of several threads whole, and survives a closed stderr.
struct Log::StderrSink {
  StderrSink() : logger("nearfield", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger.set_pattern("%v");
    logger.set_level(spdlog::level::trace);
  }
  spdlog::logger logger;
};

Log::Log(LogFormat format, LogLevel least)
    : format_(format), least_(least), stderr_(std::make_shared<StderrSink>()) {
  sink_ = [sink = stderr_](const std::string& line) {
    sink->logger.log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  };
}

Log::Log(LogFormat format, LogLevel least, Sink sink)
    : format_(format), least_(least), sink_(std::move(sink)) {}

Log::~Log() = default;

void Log::Write(LogLevel level, const std::string& message, const std::vector<LogField>& fields) {
  if (!Enabled(level)) return;
  sink_(format_ == LogFormat::kJson ? JsonLine(level, message, fields)
                                    : TextLine(level, message, fields));
}

void Log::Flush() {
  if (stderr_ != nullptr) stderr_->logger.flush();
}

LogLevel LogLevelFromName(const std::string& name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames.at(i)) return static_cast<LogLevel>(i);
  }
  return LogLevel::kInfo;
}

}  // namespace nearfield::server

#include "server/telemetry/log.h"

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace nearfield::server {
namespace {

constexpr std::chrono::milliseconds kFlushWait{500};
constexpr std::array kLevelNames = {"debug", "info", "warning", "error"};

const char* NameOf(LogLevel level) { return kLevelNames.at(static_cast<size_t>(level)); }

// Returns the wall-clock time in UTC with microseconds.
std::string Timestamp() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
}

bool NeedsQuotes(const std::string& text) {
  return text.empty() || absl::c_any_of(text, [](char c) {
           return c <= ' ' || c == '"' || c == '=' || c == '\\' || c == '\x7f';
         });
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

std::string Line(LogFormat format, LogLevel level, const std::string& message,
                 const std::vector<LogField>& fields) {
  return format == LogFormat::kJson ? JsonLine(level, message, fields)
                                    : TextLine(level, message, fields);
}

}  // namespace

Log::Log(LogFormat format, LogLevel least) : format_(format), least_(least) {
  LineWriterOptions options;
  options.dropped_line = [format](int64_t dropped, int64_t dropped_in_all) {
    return Line(format, LogLevel::kWarning, "log lines were dropped: stderr was not read",
                {{"lines", dropped}, {"lines_in_all", dropped_in_all}});
  };
  stderr_ = std::make_unique<LineWriter>(std::move(options));
  sink_ = [writer = stderr_.get()](const std::string& line) { writer->Write(line); };
}

Log::Log(LogFormat format, LogLevel least, Sink sink)
    : format_(format), least_(least), sink_(std::move(sink)) {}

Log::~Log() = default;

void Log::Write(LogLevel level, const std::string& message, const std::vector<LogField>& fields) {
  if (Enabled(level)) sink_(Line(format_, level, message, fields));
}

void Log::Flush() {
  if (stderr_ != nullptr) stderr_->Flush(kFlushWait);
}

int64_t Log::dropped() const { return stderr_ != nullptr ? stderr_->dropped() : 0; }

LogLevel LogLevelFromName(const std::string& name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames.at(i)) return static_cast<LogLevel>(i);
  }
  return LogLevel::kInfo;
}

}  // namespace nearfield::server

// Log: the server's log on stderr. One line for each event, as text or as one JSON object.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "server/telemetry/line_writer.h"

namespace nearfield::server {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kText, kJson };

struct LogField {
  std::string name;
  std::variant<int64_t, std::string> value;
};

// Escapes control characters and invalid UTF-8 from callers. Thread-safe.
class Log {
 public:
  using Sink = std::function<void(const std::string& line)>;

  // Writes lines to stderr on a separate thread, so that a blocked reader of stderr never blocks a
  // caller.
  Log(LogFormat format, LogLevel least);
  // Passes lines to `sink`, which is called from any thread.
  Log(LogFormat format, LogLevel least, Sink sink);
  ~Log();

  bool Enabled(LogLevel level) const { return level >= least_.load(std::memory_order_relaxed); }
  void SetLevel(LogLevel least) { least_.store(least); }
  void Write(LogLevel level, const std::string& message, const std::vector<LogField>& fields = {});
  // Blocks until the lines so far are written, for at most half a second.
  void Flush();
  // Returns the number of lines that were dropped because stderr did not accept them.
  int64_t dropped() const;

 private:
  const LogFormat format_;
  std::atomic<LogLevel> least_;
  std::unique_ptr<LineWriter> stderr_;
  Sink sink_;
};

// Parses a name of the setting log_level: "info" and so on.
LogLevel LogLevelFromName(const std::string& name);

}  // namespace nearfield::server

// The server's log: one line an event, as text or as one JSON object, on stderr.
#ifndef NEARFIELD_SERVER_TELEMETRY_LOG_H_
#define NEARFIELD_SERVER_TELEMETRY_LOG_H_

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

// Thread-safe. Control characters and invalid UTF-8 of callers never reach a line as such.
class Log {
 public:
  using Sink = std::function<void(const std::string& line)>;

  // Lines go to stderr, on a thread of their own: a blocked reader of stderr never blocks a caller.
  Log(LogFormat format, LogLevel least);
  // Lines go to `sink`, called from any thread.
  Log(LogFormat format, LogLevel least, Sink sink);
  ~Log();

  bool Enabled(LogLevel level) const { return level >= least_.load(std::memory_order_relaxed); }
  void SetLevel(LogLevel least) { least_.store(least); }
  void Write(LogLevel level, const std::string& message, const std::vector<LogField>& fields = {});
  // Waits until the lines so far are written, for half a second at most.
  void Flush();
  // Lines that were dropped, since stderr did not take them.
  int64_t dropped() const;

 private:
  const LogFormat format_;
  std::atomic<LogLevel> least_;
  std::unique_ptr<LineWriter> stderr_;
  Sink sink_;
};

// "info" and so on; the names of the setting log_level.
LogLevel LogLevelFromName(const std::string& name);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_TELEMETRY_LOG_H_

// The server's log: one line an event, as text or as one JSON object, on stderr.
#ifndef NEARFIELD_SERVER_TELEMETRY_LOG_H_
#define NEARFIELD_SERVER_TELEMETRY_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

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

  // Lines go to stderr.
  Log(LogFormat format, LogLevel least);
  // Lines go to `sink`, called from any thread.
  Log(LogFormat format, LogLevel least, Sink sink);
  ~Log();

  bool Enabled(LogLevel level) const { return level >= least_; }
  void Write(LogLevel level, const std::string& message, const std::vector<LogField>& fields = {});
  void Flush();

 private:
  struct StderrSink;

  const LogFormat format_;
  const LogLevel least_;
  std::shared_ptr<StderrSink> stderr_;
  Sink sink_;
};

// "info" and so on; the names of the setting log_level.
LogLevel LogLevelFromName(const std::string& name);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_TELEMETRY_LOG_H_

// Writes lines to a descriptor on a thread of its own.
#ifndef NEARFIELD_SERVER_TELEMETRY_LINE_WRITER_H_
#define NEARFIELD_SERVER_TELEMETRY_LINE_WRITER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace spdlog {
class async_logger;
namespace details {
class thread_pool;
}
}  // namespace spdlog

namespace nearfield::server {

struct LineWriterOptions {
  int fd = 2;
  size_t lines_max = 4096;  // that wait
  // Returns the line that tells how many lines were dropped since the last such line, and in all.
  // It is written once lines flow again.
  std::function<std::string(int64_t dropped, int64_t dropped_in_all)> dropped_line;
};

// A reader that does not read never blocks a caller: the oldest waiting line is dropped instead.
// Thread-safe.
class LineWriter {
 public:
  explicit LineWriter(LineWriterOptions options);
  // As Flush with a short wait. Where the descriptor is blocked, the thread is left behind: it ends
  // with the process.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Does not block.
  void Write(const std::string& line);
  // Blocks until every line so far is written or dropped. False: not within `wait`.
  bool Flush(std::chrono::milliseconds wait);
  // Lines that were dropped since the start.
  int64_t dropped() const;

 private:
  class Sink;

  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<int64_t> posted_{0};
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_TELEMETRY_LINE_WRITER_H_

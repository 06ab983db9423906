// LineWriter: writes lines to a descriptor on its own thread.
#pragma once

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
  size_t lines_max = 4096;  // maximum number of waiting lines
  // Returns the line that reports how many lines were dropped since the last such line, and in
  // total. It is written once the descriptor accepts lines again.
  std::function<std::string(int64_t dropped, int64_t dropped_in_all)> dropped_line;
};

// A slow reader never blocks a caller: the oldest waiting line is dropped instead. Thread-safe.
class LineWriter {
 public:
  explicit LineWriter(LineWriterOptions options);
  // Flushes with a short wait. If the descriptor is blocked, the thread keeps running until the
  // process ends.
  ~LineWriter();

  // Does not block.
  void Write(const std::string& line);
  // Blocks until every line so far is written or dropped. Returns false if that takes longer than
  // `wait`.
  bool Flush(std::chrono::milliseconds wait);
  // Returns the number of lines dropped since the start.
  int64_t dropped() const;

 private:
  class Sink;

  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<int64_t> posted_{0};
};

}  // namespace nearfield::server

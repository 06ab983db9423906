#include "server/telemetry/line_writer.h"

#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEndWait{500};

// Writes all bytes; blocks while the descriptor is full. Discards what cannot be written (closed
// descriptor, broken pipe).
void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      static_cast<void>(poll(&wait, 1, -1));
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

// Keeps the pool until the process ends.
void LeaveBehind(std::shared_ptr<spdlog::details::thread_pool> pool) {
  struct Left {
    Mutex mutex;
    std::vector<std::shared_ptr<spdlog::details::thread_pool>> pools ABSL_GUARDED_BY(mutex);
  };
  static Left& left = *new Left;
  const MutexLock lock(left.mutex);
  left.pools.push_back(std::move(pool));
}

}  // namespace

// Called only by the pool's single thread.
class LineWriter::Sink final : public spdlog::sinks::sink {
 public:
  // `pool` outlives its thread, which alone uses the sink.
  Sink(LineWriterOptions options, spdlog::details::thread_pool* pool)
      : options_(std::move(options)), pool_(pool) {}

  void log(const spdlog::details::log_msg& msg) override {
    line_.assign(msg.payload.data(), msg.payload.size());
    line_.push_back('\n');
    WriteAll(options_.fd, line_);
    TellDropped();
    {
      const MutexLock lock(mutex_);
      ++written_;
    }
    wrote_.NotifyAll();
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

  // Returns false if some of the first `posted` lines are neither written nor dropped within
  // `wait`.
  bool AwaitWritten(int64_t posted, milliseconds wait) {
    MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + wait;
    while (!IsWritten(posted) && wrote_.WaitUntil(lock, end)) {
    }
    return IsWritten(posted);
  }

 private:
  bool IsWritten(int64_t posted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return written_ + static_cast<int64_t>(pool_->overrun_counter()) >= posted;
  }
  void TellDropped() {
    const auto dropped = static_cast<int64_t>(pool_->overrun_counter());
    if (dropped == told_) return;
    WriteAll(options_.fd, options_.dropped_line(dropped - told_, dropped) + "\n");
    told_ = dropped;
  }

  const LineWriterOptions options_;
  spdlog::details::thread_pool* const pool_;
  std::string line_;
  int64_t told_ = 0;
  Mutex mutex_;
  CondVar wrote_;
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
};

LineWriter::LineWriter(LineWriterOptions options)
    : pool_(std::make_shared<spdlog::details::thread_pool>(options.lines_max, 1)),
      sink_(std::make_shared<Sink>(std::move(options), pool_.get())),
      logger_(std::make_shared<spdlog::async_logger>(
          "nearfield", sink_, pool_, spdlog::async_overflow_policy::overrun_oldest)) {
  logger_->set_level(spdlog::level::trace);
  // The default handler writes to stderr.
  logger_->set_error_handler([](const std::string& /*error*/) {});
}

LineWriter::~LineWriter() {
  if (Flush(kEndWait)) return;
  // The pool's destructor would wait for the blocked thread.
  LeaveBehind(std::move(pool_));
}

void LineWriter::Write(const std::string& line) {
  posted_.fetch_add(1);
  logger_->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

bool LineWriter::Flush(milliseconds wait) { return sink_->AwaitWritten(posted_, wait); }

int64_t LineWriter::dropped() const { return static_cast<int64_t>(pool_->overrun_counter()); }

}  // namespace nearfield::server

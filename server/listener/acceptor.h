// Acceptor: accepts connections on its own thread and passes them on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/listener/accept_counts.h"
#include "server/listener/connection_table.h"
#include "server/listener/listen_sockets.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

struct AcceptorOptions {
  int64_t connections_max = 1;
  // Takes ownership of a connected descriptor, and may close it at any time. Called on the
  // acceptor's thread.
  std::function<void(int fd)> on_connection;
  // Non-blocking accept4, or a test's replacement: returns a descriptor, or -1 and errno.
  std::function<int(int listen_fd)> accept;
};

// Accepts connections and survives shortages. If the system has no descriptor or memory for a
// connection (EMFILE, ENFILE, ENOBUFS, ENOMEM), it pauses for 10 ms, then doubles the pause up to
// 250 ms, until accepting succeeds. Meanwhile connections wait in the kernel's queue. A connection
// beyond `connections_max` is accepted and closed, so that its client gets an error immediately.
// Thread-safe.
class Acceptor {
 public:
  // `log` outlives the acceptor.
  Acceptor(std::unique_ptr<ListenSockets> sockets, AcceptorOptions options, Log* log);
  ~Acceptor();

  // Ends the thread and closes the listening sockets. The kernel then refuses connections.
  // Connections that were passed on stay open.
  void Stop();
  // Ends the connections that were passed on, as if the network had. Before that, clients and
  // proxies have a tenth of a second to take what was sent to them. Waits at most `wait` until the
  // owner has closed the connections. Call it after Stop.
  void Disconnect(std::chrono::milliseconds wait);

  AcceptCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  // Blocks until a connection waits, a pause ends, or Stop is called. Returns false after Stop.
  bool Await();
  // Accepts waiting connections, at most kAcceptsPerRound of them.
  void AcceptRound(int listen_fd);
  bool IsFull() const;
  // Removes closed connections from the table. Returns false if the last sweep was too recent:
  // connections wait until the next one.
  bool Sweep();
  void Take(int fd);
  // Waits until no connection is open. Returns false if there still are some after `wait`.
  bool AwaitAllClosed(std::chrono::milliseconds wait) const;
  void Pause(int error);
  void Resume();

  const AcceptorOptions options_;
  Log* const log_;
  std::unique_ptr<ListenSockets> sockets_;
  int stop_fd_ = -1;
  // The following members are used only by the thread.
  std::chrono::milliseconds pause_{0};
  Clock::time_point wake_at_;  // nothing is accepted before this time
  Clock::time_point swept_at_;
  Clock::time_point told_at_;
  bool waits_ = false;
  bool full_told_ = false;

  mutable Mutex mutex_;
  mutable ConnectionTable table_ ABSL_GUARDED_BY(mutex_);
  AcceptCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace nearfield::server

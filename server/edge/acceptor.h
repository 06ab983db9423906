// Accepts connections on a thread of its own and hands them over.
#ifndef NEARFIELD_SERVER_EDGE_ACCEPTOR_H_
#define NEARFIELD_SERVER_EDGE_ACCEPTOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/edge/accept_counts.h"
#include "server/edge/connection_table.h"
#include "server/edge/listen_sockets.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

struct AcceptorOptions {
  int64_t connections_max = 1;
  // Takes ownership of a connected descriptor, and may close it at any time. Called on the
  // acceptor's thread.
  std::function<void(int fd)> on_connection;
  // accept4 without blocking, or a test's: a descriptor, or -1 and errno.
  std::function<int(int listen_fd)> accept;
};

// A listener must outlive a shortage. Where the system has no descriptor or memory for a connection
// (EMFILE, ENFILE, ENOBUFS, ENOMEM), accepting pauses for 10 ms, then twice as long, up to 250 ms,
// until it succeeds; meanwhile connections wait in the kernel's queue. The connection beyond
// `connections_max` is accepted and closed at once, so its client hears of it at once.
// Thread-safe.
class Acceptor {
 public:
  // `log` outlives the acceptor.
  Acceptor(std::unique_ptr<ListenSockets> sockets, AcceptorOptions options, Log* log);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Ends the thread and closes the listening sockets: connecting is refused by the kernel from then
  // on. Connections that were handed over stay.
  void Stop();

  AcceptCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  // Blocks until a connection waits, a pause is over, or Stop. False: stop.
  bool Await();
  // Takes the connections that wait, at most a round of them.
  void AcceptRound(int listen_fd);
  bool IsFull() const;
  // False where the last sweep was a moment ago: connections wait until the next one.
  bool Sweep();
  void Take(int fd);
  void Pause(int error);
  void Resume();

  const AcceptorOptions options_;
  Log* const log_;
  std::unique_ptr<ListenSockets> sockets_;
  int stop_fd_ = -1;
  // Of the thread alone.
  std::chrono::milliseconds pause_{0};
  Clock::time_point wake_at_;  // nothing is accepted before
  Clock::time_point swept_at_;
  Clock::time_point told_at_;
  bool waits_ = false;
  bool full_told_ = false;

  mutable std::mutex mutex_;  // table_ and counts_
  mutable ConnectionTable table_;
  AcceptCounts counts_;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_EDGE_ACCEPTOR_H_

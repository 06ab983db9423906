// ServerState: the state that the services share: the engine and its queues once they run, the
// phase of the server, and the calls in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/engine.h"
#include "server/audit/audit.h"
#include "server/collections/catalog.h"
#include "server/collections/compactor.h"
#include "server/collections/expiry.h"
#include "server/config/settings.h"
#include "server/convert/limits.h"
#include "server/listener/accept_counts.h"
#include "server/rpc/boot_progress.h"
#include "server/rpc/live_calls.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/engine_thread.h"
#include "server/scheduler/epoch_waiters.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/pass_counter.h"
#include "server/scheduler/pinned_snapshot_cache.h"
#include "server/scheduler/search_queue.h"
#include "server/scheduler/timers.h"
#include "server/scheduler/turns.h"
#include "server/scheduler/unread_replies.h"
#include "server/scheduler/upload_places.h"
#include "server/scheduler/worker_pool.h"
#include "server/telemetry/call_counter.h"
#include "server/telemetry/log.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

// The engine and everything that uses it. Members are destroyed in reverse order: threads first,
// the engine last, and each member after those that give it work.
struct Core {
  static constexpr int64_t kUpdatesMax = 1024;

  // The objects that a core uses; all outlive it.
  struct Base {
    const Settings* settings = nullptr;
    const Clock* clock = nullptr;
    Log* log = nullptr;
    PrincipalQuotas* quotas = nullptr;
    std::function<bool()> may_expire;  // polled before rows are deleted because they expired
    // Receives the number of rows that expired, or why they could not be deleted.
    std::function<void(const std::string& collection, const absl::StatusOr<int64_t>& rows)> expired;
  };
  // `store_in`: null if nothing is stored.
  Core(std::unique_ptr<Engine> engine_in, std::unique_ptr<store::Store> store_in, const Base& base);

  std::unique_ptr<Engine> engine;
  std::atomic<int64_t> updates_waiting{0};  // updates that wait or run, at most kUpdatesMax
  const double read_bytes_per_second;       // of EngineInfo
  Catalog catalog;
  Compactor compactor;
  std::unique_ptr<Audit> audit;  // set before the core serves
  EpochWaiters epoch_waiters;
  PinnedSnapshotCache pinned_snapshots;
  SearchQueue queue;
  PassCounter pass_counter;
  WorkerPool replies;  // makes reply messages for the engine thread, which it outlives
  EngineThread engine_thread;
  WorkerPool reads;          // fetch, counts, collections
  WorkerPool writes;         // blocks and commits of uploads
  WorkerPool deletes;        // separate from writes, so that waiting deletes do not delay uploads
  Turns update_turns;        // of collections, each with its UpdateQueue
  WorkerPool updates;        // of update_turns
  WorkerPool verifications;  // one core each; none queues; each waits for a search
  WorkerPool compactions;    // calls that wait for the compactor
  WorkerPool snapshots;      // one at a time; none waits
  WorkerPool filters;        // evaluates filters that are not cached; then queues the searches
  Expiry expiry;
};

// Thread-safe.
class ServerState {
 public:
  enum class Phase : uint8_t { kStarting, kServing, kDraining, kLost };

  // All three outlive the state.
  ServerState(const Settings* settings, Log* log, const Clock* clock);

  const RequestLimits& limits() const { return limits_; }
  const Settings& settings() const { return *settings_; }
  const Clock& clock() const { return *clock_; }
  Log* log() const { return log_; }
  CallCounter& call_counter() { return call_counter_; }
  RequestLog& request_log() { return request_log_; }
  LiveCalls& live_calls() { return live_calls_; }
  MemoryLedger& ledger() { return ledger_; }
  UnreadReplies& unread_replies() { return unread_replies_; }
  Timers& timers() { return timers_; }
  std::chrono::system_clock::time_point started() const { return started_; }

  BootProgress& boot_progress() { return boot_progress_; }

  // Stores the core. Changes the phase from starting to serving; other phases stay.
  void Serve(std::unique_ptr<Core> core);
  // Refuses new calls. Calls in flight continue, except those that wait for an epoch. Uploads may
  // be silent only for a short time. Returns the previous phase.
  Phase Drain();
  void Lose();
  Phase phase() const;
  // Returns why a server in this phase does not serve, in the words of the refusal of a call;
  // empty: it serves.
  std::string WhyNotServing(Phase phase) const;

  // Marks the server as not trusted, permanently, after an answer or a resident row was proven
  // wrong. It then answers only calls for inspection.
  void Distrust() { distrusted_.store(true); }
  bool distrusted() const { return distrusted_.load(std::memory_order_relaxed); }
  static absl::Status DistrustStatus();  // Unavailable with a retry hint

  // The purpose of a call. A server that is not trusted still answers calls for inspection.
  enum class Purpose : uint8_t { kService, kInspection };
  // Registers a call in flight, until Leave. Errors: Unavailable with a retry hint (not serving).
  absl::StatusOr<Core*> Enter(Purpose purpose = Purpose::kService);
  void Leave();
  // Returns true if exactly one call is in flight.
  bool OneCall() const;
  // Waits until no call is in flight. Returns false if there still are some after `wait`.
  bool WaitIdle(std::chrono::milliseconds wait);

  UploadPlaces& upload_places() { return upload_places_; }
  PrincipalQuotas& quotas() { return quotas_; }

  // `listener` checks the device. Suspect calls it, after an engine call returned Unavailable.
  void SetSuspicionListener(std::function<void()> listener);
  void Suspect();

  // Sets the source of the connection counts, once the server listens.
  void SetConnectionCounts(std::function<AcceptCounts()> counts);
  AcceptCounts connection_counts() const;

  // Returns null before Serve.
  Core* core() const;
  // Ends all threads of the core. Requires: no call is in flight.
  void DestroyCore();
  // Abandons the core without ending its threads, for a process that is about to exit because its
  // device does not respond.
  void AbandonCore();

 private:
  const Settings* const settings_;
  Log* const log_;
  const Clock* const clock_;
  const RequestLimits limits_;
  BootProgress boot_progress_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  CallCounter call_counter_;
  RequestLog request_log_;
  LiveCalls live_calls_;
  UploadPlaces upload_places_;
  PrincipalQuotas quotas_;  // before the core, which uses it
  MemoryLedger ledger_;
  UnreadReplies unread_replies_;
  mutable Mutex mutex_;
  CondVar idle_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kStarting;
  std::unique_ptr<Core> core_ ABSL_GUARDED_BY(mutex_);
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> suspicion_listener_ ABSL_GUARDED_BY(mutex_);
  std::function<AcceptCounts()> connection_counts_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> distrusted_{false};
  Timers timers_;  // last: its functions use the others
};

// Returns the name of a phase in metrics and in readiness: "serving".
const char* NameOf(ServerState::Phase phase);

RequestLimits LimitsOf(const Settings& settings);
RequestLogPolicy RequestLogPolicyOf(const Settings& settings);

}  // namespace nearfield::server

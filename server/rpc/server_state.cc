#include "server/rpc/server_state.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/config/memory_plan.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr int64_t kReadThreads = 4;
constexpr int64_t kHelperThreadsMax = 8;  // that make replies or evaluate filters
// More chunks of replies than a few passes produce. If this many wait, the engine thread makes its
// replies itself, which delays further searches.
constexpr int64_t kRepliesMax = 512;
constexpr int64_t kDeletesMax = 1024;  // maximum waiting deletes
constexpr int64_t kCompactionsMax = 16;
constexpr int64_t kNotServingRetryMs = 1000;

// Returns the number of threads of a pool that helps the engine thread: half of the cores.
int64_t HelperThreads() {
  return std::clamp<int64_t>(std::thread::hardware_concurrency() / 2, 1, kHelperThreadsMax);
}

// On few cores, searches have priority.
constexpr int kWritesNice = 10;

double Share(const NumberSetting& percent) { return static_cast<double>(percent.value()) / 100; }

// Returns the limit on memory of rows that only kept epochs show: a share of each memory for rows.
HeldBytes PinnedBytesMax(const Engine& engine, double share) {
  const Capacity capacity = engine.GetCapacity();
  const auto part = [share](int64_t total) {
    return static_cast<int64_t>(share * static_cast<double>(total));
  };
  return {.device = part(capacity.device_bytes_total),
          .host = part(capacity.host_bytes_total),
          .host_rows = part(capacity.host_rows_bytes_total)};
}

SearchQueueLimits QueueLimitsOf(const Settings& settings, double read_bytes_per_second) {
  return {.requests_max = settings.queue_requests_max.value(),
          .bytes_max = settings.queue_bytes_max.value(),
          .batch_max = settings.batch_max.value(),
          .reply_bytes_max = kBatchRepliesMax * settings.response_bytes_max.value(),
          .admission = settings.admission.value(),
          .wait_us_max = settings.queue_ms_max.value() * 1000,
          .caller_share = Share(settings.caller_share_percent),
          .batch_share = Share(settings.batch_share_percent),
          .read_bytes_per_second = read_bytes_per_second,
          .k_max = settings.k_max.value()};
}

UploadPlaces::Limits UploadLimitsOf(const Settings& settings) {
  return {.places_max = settings.uploads_max.value(),
          .caller_places_max =
              CallerShareOf(settings.uploads_max.value(), settings.caller_share_percent.value()),
          .bytes_per_second_min = settings.upload_bytes_per_second_min.value(),
          .window = std::chrono::milliseconds(settings.upload_idle_ms.value())};
}

// Returns the memory plan with which the engine was made.
MemoryPlan PlanOf(const Settings& settings, const Engine& engine) {
  HostMachine machine = ThisMachine();
  machine.has_gpu = engine.Info().backend == BackendKind::kGpu;
  return PlanMemory(settings, machine);
}

}  // namespace

RequestLimits LimitsOf(const Settings& settings) {
  return {.k_max = settings.k_max.value(),
          .queries_max = settings.queries_max.value(),
          .fetch_ids_max = settings.fetch_ids_max.value(),
          .response_bytes_max = settings.response_bytes_max.value(),
          .payload_bytes_max = settings.payload_bytes_max.value(),
          .upload_block_bytes_max = settings.upload_block_bytes_max(),
          .page_rows_max = settings.page_rows_max.value()};
}

RequestLogPolicy RequestLogPolicyOf(const Settings& settings) {
  return {.all = settings.log_requests.value() == "all",
          .slow_us = settings.log_slow_ms.value() * 1000,
          .sample = settings.log_sample.value()};
}

Core::Core(std::unique_ptr<Engine> engine_in, std::unique_ptr<store::Store> store_in,
           const Base& base)
    : engine(std::move(engine_in)),
      read_bytes_per_second(engine->Info().read_bytes_per_second),
      catalog({.engine = engine.get(),
               .store = std::move(store_in),
               .segment_writes = {.what = "segment writes",
                                  .threads = base.settings->uploads_max.value(),
                                  .nice = kWritesNice},
               .changed =
                   [this] {
                     compactor.Nudge();
                     epoch_waiters.Nudge();
                     pinned_snapshots.Trim();
                   },
               .attribute_limits = {.memory_bytes =
                                        PlanOf(*base.settings, *engine).attribute_memory_bytes,
                                    .cache_bytes = base.settings->filter_cache_bytes.value(),
                                    .numbers_bytes = base.settings->term_memory_bytes.value()},
               .quotas = base.quotas},
              base.settings->collections_max.value()),
      compactor([this] { return catalog.List(); },
                [log = base.log](const std::string& collection, const absl::Status& status) {
                  log->Write(LogLevel::kWarning, "a compaction failed",
                             {{"collection", collection}, {"error", status.ToString()}});
                }),
      epoch_waiters(base.settings->queue_requests_max.value(), base.clock),
      pinned_snapshots(
          {.keep = std::chrono::milliseconds(base.settings->cursor_ms.value()),
           .epochs_max = base.settings->epochs_kept_max.value(),
           .bytes_max = PinnedBytesMax(*engine, Share(base.settings->epochs_kept_percent))},
          base.clock),
      queue(QueueLimitsOf(*base.settings, read_bytes_per_second), base.clock),
      replies({.what = "replies", .threads = HelperThreads(), .waiting_max = kRepliesMax}),
      engine_thread({.engine = engine.get(),
                     .clock = base.clock,
                     .counter = &pass_counter,
                     .replies = &replies},
                    &queue),
      reads({.what = "reads",
             .threads = kReadThreads,
             .waiting_max = base.settings->queue_requests_max.value()}),
      // Each upload has at most one message here. An upload that ends releases its place shortly
      // before its thread is free, so the next upload may have to wait.
      writes({.what = "writes",
              .threads = base.settings->uploads_max.value(),
              .waiting_max = base.settings->uploads_max.value(),
              .nice = kWritesNice}),
      deletes({.what = "deletes", .threads = 1, .waiting_max = kDeletesMax}),
      // An update of a million rows takes seconds. The second thread serves other collections then.
      // Turns need two places for each collection that has updates.
      updates(
          {.what = "updates", .threads = 2, .waiting_max = 3 * kUpdatesMax, .nice = kWritesNice}),
      verifications({.what = "verifications",
                     .threads = base.settings->verify_max.value(),
                     .waiting_max = 0}),
      compactions({.what = "compactions", .threads = 1, .waiting_max = kCompactionsMax}),
      snapshots({.what = "snapshots", .threads = 1, .waiting_max = 0}),
      filters({.what = "filters that are not in the cache",
               .threads = base.settings->filter_threads.value() > 0
                              ? base.settings->filter_threads.value()
                              : HelperThreads(),
               .waiting_max = base.settings->queue_requests_max.value()}),
      expiry({.collections = [this] { return catalog.List(); },
              .interval_ms = 1000 * base.settings->expire_interval_s.value(),
              .now_us = [] { return absl::ToUnixMicros(absl::Now()); },
              .may_delete = base.may_expire,
              .report = base.expired}) {}

ServerState::ServerState(const Settings* settings, Log* log, const Clock* clock)
    : settings_(settings),
      log_(log),
      clock_(clock),
      limits_(LimitsOf(*settings)),
      boot_progress_(clock),
      request_log_(log, RequestLogPolicyOf(*settings)),
      upload_places_(UploadLimitsOf(*settings), clock),
      ledger_({.replies_bytes_max = settings->replies_bytes_max.value(),
               .reply_copies = kReplyCopies,
               .requests_bytes_max = settings->requests_bytes_max.value(),
               .caller_share = Share(settings->caller_share_percent)}),
      unread_replies_(std::chrono::milliseconds(settings->reply_unread_ms.value()), clock) {}

void ServerState::Serve(std::unique_ptr<Core> core) {
  const MutexLock lock(mutex_);
  core_ = std::move(core);
  if (phase_ == Phase::kStarting) phase_ = Phase::kServing;
}

ServerState::Phase ServerState::Drain() {
  Phase before = Phase::kStarting;
  {
    const MutexLock lock(mutex_);
    before = phase_;
    if (phase_ != Phase::kLost) phase_ = Phase::kDraining;
    if (core_ != nullptr) core_->epoch_waiters.Close();
  }
  live_calls_.Wake();
  return before;
}

void ServerState::Lose() {
  const MutexLock lock(mutex_);
  phase_ = Phase::kLost;
}

ServerState::Phase ServerState::phase() const {
  const MutexLock lock(mutex_);
  return phase_;
}

absl::Status ServerState::DistrustStatus() {
  return WithReason(
      WithRetryAfter(
          absl::UnavailableError("an answer or a row of this server was found to be wrong: it "
                                 "answers no more; see its log and its audit records"),
          kNotServingRetryMs),
      "wrong_answer");
}

std::string ServerState::WhyNotServing(Phase phase) const {
  switch (phase) {
    case Phase::kServing: return distrusted() ? std::string(DistrustStatus().message()) : "";
    case Phase::kStarting: return "the server is starting: " + boot_progress_.Text();
    case Phase::kDraining:
      return "the server is draining: it ends when the calls in flight have ended";
    case Phase::kLost: return "the device is lost: the server ends, to be started again";
  }
  return "";
}

const char* NameOf(ServerState::Phase phase) {
  switch (phase) {
    case ServerState::Phase::kStarting: return "starting";
    case ServerState::Phase::kServing: return "serving";
    case ServerState::Phase::kDraining: return "draining";
    case ServerState::Phase::kLost: return "device_lost";
  }
  return "";
}

absl::StatusOr<Core*> ServerState::Enter(Purpose purpose) {
  if (distrusted() && purpose != Purpose::kInspection) return DistrustStatus();
  Phase phase = Phase::kStarting;
  {
    const MutexLock lock(mutex_);
    phase = phase_;
    if (phase == Phase::kServing) {
      ++in_flight_;
      return core_.get();
    }
  }
  return WithReason(
      WithRetryAfter(absl::UnavailableError(WhyNotServing(phase)), kNotServingRetryMs),
      NameOf(phase));
}

bool ServerState::OneCall() const {
  const MutexLock lock(mutex_);
  return in_flight_ == 1;
}

void ServerState::Leave() {
  const MutexLock lock(mutex_);
  if (--in_flight_ == 0) idle_.NotifyAll();
}

bool ServerState::WaitIdle(std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  MutexLock lock(mutex_);
  while (in_flight_ > 0) {
    if (!idle_.WaitUntil(lock, end)) return in_flight_ == 0;
  }
  return true;
}

void ServerState::SetSuspicionListener(std::function<void()> listener) {
  const MutexLock lock(mutex_);
  suspicion_listener_ = std::move(listener);
}

void ServerState::Suspect() {
  std::function<void()> listener;
  {
    const MutexLock lock(mutex_);
    listener = suspicion_listener_;
  }
  if (listener != nullptr) listener();
}

void ServerState::SetConnectionCounts(std::function<AcceptCounts()> counts) {
  const MutexLock lock(mutex_);
  connection_counts_ = std::move(counts);
}

AcceptCounts ServerState::connection_counts() const {
  std::function<AcceptCounts()> counts;
  {
    const MutexLock lock(mutex_);
    counts = connection_counts_;
  }
  return counts != nullptr ? counts() : AcceptCounts{};
}

Core* ServerState::core() const {
  const MutexLock lock(mutex_);
  return core_.get();
}

void ServerState::DestroyCore() {
  std::unique_ptr<Core> core;
  {
    const MutexLock lock(mutex_);
    core = std::move(core_);
  }
}

void ServerState::AbandonCore() {
  const MutexLock lock(mutex_);
  static_cast<void>(core_.release());
}

}  // namespace nearfield::server

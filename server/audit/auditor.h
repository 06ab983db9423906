// Auditor: checks a sample of the live answers against the oracle, outside the request path.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/engine.h"
#include "server/audit/alarm.h"
#include "server/audit/audited_answer.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// Totals since the start.
struct AuditCounts {
  int64_t answers_audited = 0;  // checks that finished
  int64_t answers_dropped = 0;  // sampled but not checked: the auditor was busy, rested or ended
  int64_t answers_failed = 0;   // checks that ended with an error
  int64_t mismatches = 0;
  int64_t rows_checked = 0;  // scored by the oracle
  int64_t busy_us = 0;
};

struct AuditorOptions {
  // Audits one search in every `one_in`, at pseudo-random intervals; 0 disables the audit.
  int64_t one_in = 0;
  // Maximum percent of one core, 1 .. 100. The thread rests after each check to stay below it.
  int64_t cpu_percent = 100;
};

// Maximum number of answers that are sampled, wait or are being checked. Each pins its epoch until
// it is checked or dropped; none waits while the auditor rests.
inline constexpr int64_t kAuditSlots = 4;

// Runs one thread. Thread-safe.
class Auditor {
 public:
  using Report = std::function<void(const AuditCounts&)>;

  // The callback receives the counts on the auditor's thread, at intervals, and at the end if any
  // answer was sampled. All arguments outlive the auditor.
  Auditor(const AuditorOptions& options, Engine* engine, const Clock* clock, Alarm* alarm,
          Report report);
  // Cancels the running check and drops the waiting answers.
  ~Auditor();

  // A slot for one answer, released if it is not used. The auditor outlives it.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept : auditor_(std::exchange(other.auditor_, nullptr)) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(auditor_, other.auditor_);
      return *this;
    }
    ~Slot() {
      if (auditor_ != nullptr) auditor_->ReleaseSlot();
    }
    explicit operator bool() const { return auditor_ != nullptr; }

   private:
    friend class Auditor;
    explicit Slot(Auditor* auditor) : auditor_(auditor) {}
    Auditor* auditor_ = nullptr;
  };

  // Samples a search: returns true if its answer is to be audited. Call it for every search. Cost:
  // a few ns.
  bool Sample();
  // Returns a slot for the answer of a sampled search; no slot if all are taken.
  Slot Reserve();
  // Queues the answer for its check. Does not block.
  void Submit(Slot slot, AuditedAnswer answer);

  AuditCounts counts() const;

 private:
  struct Job {
    Slot slot;
    AuditedAnswer answer;
  };
  void ReleaseSlot() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Paused() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  void Check(AuditedAnswer* answer);

  const AuditorOptions options_;
  Engine* const engine_;
  const Clock* const clock_;
  Alarm* const alarm_;
  const Report report_;
  std::atomic<uint64_t> sampled_{0};
  std::atomic<bool> ending_{false};
  mutable Mutex mutex_;
  CondVar arrived_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  int64_t slots_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  TimePoint paused_until_ ABSL_GUARDED_BY(mutex_) = TimePoint::min();
  TimePoint reported_ ABSL_GUARDED_BY(mutex_);
  AuditCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace nearfield::server

// Checks a share of the answers of live traffic against the oracle, off their path.
#ifndef NEARFIELD_SERVER_CATALOG_AUDIT_AUDITOR_H_
#define NEARFIELD_SERVER_CATALOG_AUDIT_AUDITOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "nearfield/engine/engine.h"
#include "server/batching/clock.h"
#include "server/catalog/audit/alarm.h"
#include "server/catalog/audit/audited_answer.h"

namespace nearfield::server {

// Since the start.
struct AuditCounts {
  int64_t answers_audited = 0;  // checked to the end
  int64_t answers_dropped = 0;  // chosen, and not checked: the auditor was busy, rested or ended
  int64_t answers_failed = 0;   // whose check ended with an error
  int64_t mismatches = 0;
  int64_t rows_checked = 0;  // scored by the oracle
  int64_t busy_us = 0;
};

struct AuditorOptions {
  // One in so many searches is chosen, without a pattern; 0: none.
  int64_t share = 0;
  // Of one core, 1 .. 100: after a check the thread rests, so that checks take no more of the time.
  int64_t cpu_percent = 100;
};

// Answers that may be chosen, wait or be checked at once. Each holds its epoch until it is checked
// or dropped; none waits while the auditor rests.
inline constexpr int64_t kAuditPlaces = 4;

// One thread. Thread-safe.
class Auditor {
 public:
  using Tell = std::function<void(const AuditCounts&)>;

  // `tell`: called on the auditor's thread now and then, and at the end where something was done.
  // All outlive the auditor.
  Auditor(const AuditorOptions& options, Engine* engine, const Clock* clock, Alarm* alarm,
          Tell tell);
  // Cancels the check under way and drops what waits.
  ~Auditor();
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  // A place for one answer; given back where it is not used. The auditor outlives it.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : auditor_(std::exchange(other.auditor_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(auditor_, other.auditor_);
      return *this;
    }
    ~Place() {
      if (auditor_ != nullptr) auditor_->GiveBack();
    }
    explicit operator bool() const { return auditor_ != nullptr; }

   private:
    friend class Auditor;
    explicit Place(Auditor* auditor) : auditor_(auditor) {}
    Auditor* auditor_ = nullptr;
  };

  // For every search, before it is queued: a place where it is to be audited. Cost: a few ns for
  // those that are not.
  Place Draw();
  // Hands the answer over. Does not wait.
  void Submit(Place place, AuditedAnswer answer);

  AuditCounts counts() const;

 private:
  struct Job {
    Place place;
    AuditedAnswer answer;
  };
  void GiveBack();
  bool Resting() const;  // requires mutex_
  void Loop();
  void Check(const AuditedAnswer& answer);

  const AuditorOptions options_;
  Engine* const engine_;
  const Clock* const clock_;
  Alarm* const alarm_;
  const Tell tell_;
  std::atomic<uint64_t> drawn_{0};
  std::atomic<bool> ending_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  std::deque<Job> jobs_;
  int64_t places_taken_ = 0;
  TimePoint rest_until_ = TimePoint::min();
  TimePoint told_;
  AuditCounts counts_;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_AUDIT_AUDITOR_H_

#include "server/audit/auditor.h"

#include <chrono>
#include <utility>

#include "engine/base/scramble.h"
#include "server/audit/background.h"

namespace nearfield::server {
namespace {

constexpr int64_t kReportUs = int64_t{600} * 1'000'000;

}  // namespace

Auditor::Auditor(const AuditorOptions& options, Engine* engine, const Clock* clock, Alarm* alarm,
                 Report report)
    : options_(options),
      engine_(engine),
      clock_(clock),
      alarm_(alarm),
      report_(std::move(report)),
      reported_(clock->Now()) {
  if (options_.one_in > 0) thread_ = std::thread([this] { Loop(); });
}

Auditor::~Auditor() {
  std::deque<Job> dropped;  // destroyed without the lock, because that releases their places
  {
    const MutexLock lock(mutex_);
    ending_.store(true);  // under the lock, with the counts: the ending thread reports them
    counts_.answers_dropped += static_cast<int64_t>(jobs_.size());
    dropped.swap(jobs_);
  }
  arrived_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

bool Auditor::Resting() const { return clock_->Now() < rest_until_; }

bool Auditor::Sample() {
  if (options_.one_in == 0) return false;
  const uint64_t number = sampled_.fetch_add(1, std::memory_order_relaxed);
  return Scramble(number) % static_cast<uint64_t>(options_.one_in) == 0;
}

Auditor::Place Auditor::Reserve() {
  const MutexLock lock(mutex_);
  if (ending_.load() || places_taken_ >= kAuditPlaces || Resting()) {
    ++counts_.answers_dropped;
    return {};
  }
  ++places_taken_;
  return Place(this);
}

void Auditor::GiveBack() {
  const MutexLock lock(mutex_);
  --places_taken_;
}

void Auditor::Submit(Place place, AuditedAnswer answer) {
  {
    const MutexLock lock(mutex_);
    if (!ending_.load() && !Resting()) {
      jobs_.push_back({.place = std::move(place), .answer = std::move(answer)});
    } else {
      ++counts_.answers_dropped;
    }
  }
  arrived_.NotifyOne();
}

AuditCounts Auditor::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void Auditor::Loop() {
  YieldToSearches();
  for (;;) {
    Job job;
    std::deque<Job> dropped;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !ending_.load()) arrived_.Wait(lock);
      if (ending_.load()) break;
      if (Resting()) {  // drop waiting answers: they would hold their epochs for the whole rest
        counts_.answers_dropped += static_cast<int64_t>(jobs_.size());
        dropped.swap(jobs_);
        continue;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Check(job.answer);
  }
  const AuditCounts all = counts();
  if (all.answers_audited + all.answers_dropped > 0) report_(all);
}

void Auditor::Check(const AuditedAnswer& answer) {
  const TimePoint begin = clock_->Now();
  const absl::StatusOr<VerifyResult> verdict =
      AskOracle(*engine_, answer, [this] { return ending_.load(); });
  const TimePoint end = clock_->Now();
  const bool wrong = verdict.ok() && !verdict->equal;
  if (wrong) alarm_->Raise(AnswerMismatch{.audited = answer, .verdict = *verdict});
  AuditCounts now;
  bool report = false;
  {
    const MutexLock lock(mutex_);
    counts_.answers_audited += verdict.ok() ? 1 : 0;
    const bool ended_early = ending_.load() && absl::IsCancelled(verdict.status());
    counts_.answers_dropped += ended_early ? 1 : 0;
    counts_.answers_failed += verdict.ok() || ended_early ? 0 : 1;
    counts_.mismatches += wrong ? 1 : 0;
    counts_.rows_checked += verdict.ok() ? verdict->rows_checked : 0;
    counts_.busy_us += MicrosBetween(begin, end);
    rest_until_ = end + (end - begin) * (100 - options_.cpu_percent) / options_.cpu_percent;
    report = MicrosBetween(reported_, end) >= kReportUs;
    if (report) reported_ = end;
    now = counts_;
  }
  if (report) report_(now);
}

}  // namespace nearfield::server

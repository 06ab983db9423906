#include "server/audit/auditor.h"

#include "engine/base/check.h"
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
  std::deque<Job> dropped;  // destroyed without the lock, because that releases their slots
  {
    const MutexLock lock(mutex_);
    ending_.store(true);  // under the lock: the thread's last report includes the drops
    counts_.answers_dropped += static_cast<int64_t>(jobs_.size());
    dropped.swap(jobs_);
  }
  arrived_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

bool Auditor::Paused() const { return clock_->Now() < paused_until_; }

bool Auditor::Sample() {
  if (options_.one_in == 0) return false;
  const uint64_t number = sampled_.fetch_add(1, std::memory_order_relaxed);
  return Scramble(number) % static_cast<uint64_t>(options_.one_in) == 0;
}

Auditor::Slot Auditor::Reserve() {
  const MutexLock lock(mutex_);
  if (ending_.load() || slots_taken_ >= kAuditSlots || Paused()) {
    ++counts_.answers_dropped;
    return {};
  }
  ++slots_taken_;
  return Slot(this);
}

void Auditor::ReleaseSlot() {
  const MutexLock lock(mutex_);
  --slots_taken_;
  CHECK_GE(slots_taken_, 0);
}

void Auditor::Submit(Slot slot, AuditedAnswer answer) {
  {
    const MutexLock lock(mutex_);
    if (!ending_.load() && !Paused()) {
      jobs_.push_back({.slot = std::move(slot), .answer = std::move(answer)});
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
      if (Paused()) {  // drop waiting answers: they would hold their epochs for the whole pause
        counts_.answers_dropped += static_cast<int64_t>(jobs_.size());
        dropped.swap(jobs_);
        continue;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Check(&job.answer);
  }
  const AuditCounts all = counts();
  if (all.answers_audited + all.answers_dropped > 0) report_(all);
}

void Auditor::Check(AuditedAnswer* answer) {
  const TimePoint begin = clock_->Now();
  const auto ending = [this] { return ending_.load(); };
  const absl::Status prepared =
      answer->prepare != nullptr ? answer->prepare(ending, answer) : absl::OkStatus();
  const absl::StatusOr<VerifyResult> verdict =
      prepared.ok() ? AskOracle(*engine_, *answer, ending) : prepared;
  const TimePoint end = clock_->Now();
  const bool wrong = verdict.ok() && !verdict->equal;
  if (wrong) alarm_->Raise(AnswerMismatch{.audited = *answer, .verdict = *verdict});
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
    paused_until_ = end + (end - begin) * (100 - options_.cpu_percent) / options_.cpu_percent;
    report = MicrosBetween(reported_, end) >= kReportUs;
    if (report) reported_ = end;
    now = counts_;
  }
  if (report) report_(now);
}

}  // namespace nearfield::server

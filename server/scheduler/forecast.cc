#include "server/scheduler/forecast.h"

#include <algorithm>
#include <cmath>

namespace nearfield::server {
namespace {

// Predicts the time of all full passes and of one for the rest.
double PassesUs(const TicketGroup& group, double queries, double batch_max) {
  if (queries <= 0) return 0;
  const double full = std::floor(queries / batch_max);
  const double rest = queries - full * batch_max;
  const double full_us = full > 0 ? full * group.PredictUs(batch_max) : 0;
  return full_us + group.PredictUs(rest);
}

// Returns how many queries have run when the first `queries` have: each pass is filled, up to
// batch_max, with searches that were queued after its leader.
double Filled(double queries, double waiting, double batch_max) {
  if (queries <= 0) return 0;
  return std::min(waiting, std::ceil(queries / batch_max) * batch_max);
}

// Returns the start of the search that leads the newcomer's pass: the newcomer or one queued before
// it.
double LeaderStart(const Newcomer& newcomer, double ahead, double batch_max) {
  const TurnQueue& queue = newcomer.group->queue(newcomer.priority);
  if (queue.empty()) return newcomer.start;
  const double passes = std::floor(ahead / batch_max);
  const double tickets_a_pass =
      batch_max * static_cast<double>(queue.size()) / static_cast<double>(queue.queries());
  const auto index = static_cast<size_t>(passes * tickets_a_pass);
  return index < queue.size() ? std::min(newcomer.start, queue.at(index).start) : newcomer.start;
}

}  // namespace

double RemainingUs(const RunningPass& pass, TimePoint now) {
  const double elapsed_us = ExactMicrosBetween(pass.begin, now);
  return std::abs(pass.predicted_us - elapsed_us);
}

Forecast Predict(const PendingQueue& pending, const BatchLimits& limits, const Newcomer& newcomer) {
  const auto batch_max = static_cast<double>(limits.batch_max);
  const bool interactive = newcomer.priority == SearchPriority::kInteractive;
  const auto own = static_cast<double>(newcomer.queries);
  const TurnQueue& own_queue = newcomer.group->queue(newcomer.priority);
  const double ahead = own_queue.QueriesBefore(newcomer.start);
  const double leader_start = LeaderStart(newcomer, ahead, batch_max);
  double own_class_us = 0;    // passes for the newcomer's own priority
  double other_class_us = 0;  // passes for kInteractive that run before a newcomer of kBatch
  for (const auto& group : pending.groups()) {
    const TurnQueue& queue = group->queue(newcomer.priority);
    const bool is_own = group.get() == newcomer.group;
    if (is_own || !queue.empty()) {
      const double before = is_own ? ahead + own : queue.QueriesBefore(leader_start);
      const double waiting = static_cast<double>(queue.queries()) + (is_own ? own : 0);
      own_class_us += PassesUs(*group, Filled(before, waiting, batch_max), batch_max);
    }
    if (!interactive) {
      const auto others = static_cast<double>(group->queue(SearchPriority::kInteractive).queries());
      other_class_us += PassesUs(*group, others, batch_max);
    }
  }
  // The newcomer's own pass holds the rest of its group, at most a full batch.
  const double in_own_pass =
      Filled(ahead + own, static_cast<double>(own_queue.queries()) + own, batch_max);
  const double rest = in_own_pass - (std::ceil(in_own_pass / batch_max) - 1) * batch_max;
  const double rest_us = newcomer.group->PredictUs(rest);
  Forecast forecast;
  // More searches arrive before the pass begins. Assume as many as for the recent passes.
  const bool only_shared_scan = newcomer.group->work == SearchWork{};
  forecast.pass_us =
      only_shared_scan ? std::max(rest_us, newcomer.group->latency->TypicalUs(newcomer.group->kind))
                       : rest_us;
  own_class_us += forecast.pass_us - rest_us;
  double total_us = own_class_us;
  if (interactive && pending.HasWaiting(SearchPriority::kBatch)) total_us /= 1 - limits.batch_share;
  if (!interactive) {
    total_us = std::min(own_class_us + other_class_us, own_class_us / limits.batch_share);
  }
  forecast.wait_us = std::max(0.0, total_us - forecast.pass_us);
  return forecast;
}

double DrainUs(const PendingQueue& pending, const BatchLimits& limits) {
  double us = 0;
  for (const auto& group : pending.groups()) {
    const auto queries =
        static_cast<double>(group->queues[0].queries() + group->queues[1].queries());
    us += PassesUs(*group, queries, static_cast<double>(limits.batch_max));
  }
  return us;
}

}  // namespace nearfield::server

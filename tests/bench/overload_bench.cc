// Sends the search queue five times the load that the device can serve, and four fifths of it for
// comparison. Measures how much is still served in time, the latency of refusals, the latency of
// accepted searches, the memory, and the time to recover. The device is a clock and computes
// nothing. Also measures the time that the queue adds to a lone search, and the device's idle time
// between two passes. Prints lines "NEARFIELD_BENCH_JSON {...}". Exits with 1 if a limit is missed
// (--tiny: if a search is lost).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "server/scheduler/engine_thread.h"
#include "server/scheduler/search_queue.h"
#include "tests/bench/open_loop.h"
#include "tests/bench/options.h"
#include "tests/bench/timed_device.h"

namespace nearfield::bench {
namespace {

using server::EngineThread;
using server::SearchQueue;
using server::SearchQueueLimits;
using server::SteadyClock;

// 6,400 queries per second in full passes of 10 ms.
constexpr DeviceTimes kTimes = {.pass_us = 2000, .query_us = 125};
constexpr int64_t kBatchMax = 64;
constexpr std::chrono::microseconds kPollEvery(100);
constexpr double kGoodputMin = 0.9;      // share of the capacity
constexpr double kRefusalUsMax = 5000;   // p99.9
constexpr double kAcceptedRatioMax = 2;  // ratio of the p99s
constexpr double kRecoverySecondsMax = 2;

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

struct Summary {
  double answered_per_second = 0;  // within the deadline
  double refused_share = 0;
  double late_share = 0;  // of accepted searches: expired, or answered after the deadline
  double accepted_us_p50 = 0;
  double accepted_us_p99 = 0;  // an expired search counts as infinite
  double refusal_us_p50 = 0;
  double refusal_us_p999 = 0;
  double refusal_us_max = 0;
  double quiet_us_p99 = 0;
  double quiet_refused_share = 0;
};

Summary Summarize(const LoadSpec& spec, const LoadResult& load) {
  std::vector<double> accepted;
  std::vector<double> refused;
  std::vector<double> quiet;
  int64_t in_time = 0;
  int64_t quiet_refused = 0;
  for (const Sample& sample : load.samples) {
    const double us = sample.took_us;
    if (sample.end == Sample::End::kRefused) {
      refused.push_back(us);
      quiet_refused += sample.quiet ? 1 : 0;
      continue;
    }
    const bool answered = sample.end == Sample::End::kAnswered;
    accepted.push_back(answered ? us : 1e12);
    if (sample.quiet) quiet.push_back(accepted.back());
    in_time += answered && us <= spec.deadline_us ? 1 : 0;
  }
  const auto all = static_cast<double>(load.samples.size());
  const auto accepted_count = static_cast<double>(std::max<size_t>(accepted.size(), 1));
  const auto quiet_count = static_cast<double>(quiet.size()) + static_cast<double>(quiet_refused);
  return {.answered_per_second = static_cast<double>(in_time) / load.seconds,
          .refused_share = static_cast<double>(refused.size()) / std::max(all, 1.0),
          .late_share = 1 - static_cast<double>(in_time) / accepted_count,
          .accepted_us_p50 = Quantile(accepted, 0.5),
          .accepted_us_p99 = Quantile(accepted, 0.99),
          .refusal_us_p50 = Quantile(refused, 0.5),
          .refusal_us_p999 = Quantile(refused, 0.999),
          .refusal_us_max = Quantile(refused, 1),
          .quiet_us_p99 = Quantile(quiet, 0.99),
          .quiet_refused_share = static_cast<double>(quiet_refused) / std::max(quiet_count, 1.0)};
}

// Returns the seconds until the first 100 ms without a refusal or a late answer.
double RecoverySeconds(const LoadSpec& spec, const LoadResult& load) {
  constexpr double kWindowUs = 100000;
  std::vector<bool> spoiled(static_cast<size_t>(load.seconds * 1e6 / kWindowUs) + 2);
  for (const Sample& sample : load.samples) {
    const bool good = sample.end == Sample::End::kAnswered && sample.took_us <= spec.deadline_us;
    if (!good) spoiled[static_cast<size_t>(sample.at_us / kWindowUs)] = true;
  }
  const auto first = std::find(spoiled.begin(), spoiled.end(), false);
  return static_cast<double>(first - spoiled.begin()) * kWindowUs / 1e6;
}

bool Lost(const LoadResult& load) {
  return load.answered_twice != 0 ||
         std::any_of(load.samples.begin(), load.samples.end(), [](const Sample& sample) {
           return sample.end == Sample::End::kPending || sample.end == Sample::End::kOther;
         });
}

int RunOverload(bool tiny, double seconds) {
  const SteadyClock clock;
  TimedDevice device(kTimes, 0);
  const std::shared_ptr<Collection> collection = *device.CreateCollection({.dim = 384});
  SearchQueue queue(SearchQueueLimits{.batch_max = kBatchMax}, &clock);
  server::PassCounter counter;
  const EngineThread thread({.engine = &device, .clock = &clock, .counter = &counter}, &queue);
  const double capacity = kTimes.Capacity(kBatchMax);
  LoadSpec spec = {.seconds = tiny ? 0.5 : 10, .rate = 0.8 * capacity, .seed = 1};
  const LoadResult base_load = RunLoad(spec, collection, clock, &queue);
  const Summary base = Summarize(spec, base_load);

  // The callers' deadline is twice the p99 latency without overload.
  spec = {.seconds = seconds,
          .rate = 5 * capacity,
          .deadline_us = kAcceptedRatioMax * base.accepted_us_p99,
          .quiet_rate = 20,
          .seed = 2};
  const LoadResult load = RunLoad(spec, collection, clock, &queue);
  const Summary over = Summarize(spec, load);
  LoadSpec after_spec = spec;
  after_spec.seconds = tiny ? 0.5 : 5;
  after_spec.rate = 0.8 * capacity;
  after_spec.seed = 3;
  const LoadResult after = RunLoad(after_spec, collection, clock, &queue);
  const double recovery = RecoverySeconds(after_spec, after);

  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\":\"overload\",\"capacity_qps\":%.0f,\"offered_qps\":%.0f,"
      "\"seconds\":%.1f,\"searches\":%zu,\"deadline_ms\":%.2f,\"goodput_qps\":%.0f,"
      "\"goodput_of_capacity\":%.3f,\"refused_share\":%.4f,\"late_share\":%.5f,"
      "\"refusal_us_p50\":%.1f,\"refusal_us_p999\":%.1f,\"refusal_us_max\":%.1f,"
      "\"base_us_p50\":%.0f,\"base_us_p99\":%.0f,\"accepted_us_p50\":%.0f,\"accepted_us_p99\":%.0f,"
      "\"accepted_p99_ratio\":%.2f,\"quiet_caller_us_p99\":%.0f,\"quiet_caller_refused_share\":%."
      "4f,"
      "\"queue_bytes_max\":%lld,\"resident_bytes_growth\":%lld,\"recovery_s\":%.1f,"
      "\"send_lag_us_p99\":%.0f}\n",
      capacity, spec.rate, load.seconds, load.samples.size(), spec.deadline_us / 1000,
      over.answered_per_second, over.answered_per_second / capacity, over.refused_share,
      over.late_share, over.refusal_us_p50, over.refusal_us_p999, over.refusal_us_max,
      base.accepted_us_p50, base.accepted_us_p99, over.accepted_us_p50, over.accepted_us_p99,
      over.accepted_us_p99 / base.accepted_us_p99, over.quiet_us_p99, over.quiet_refused_share,
      static_cast<long long>(load.waiting_bytes_max),
      static_cast<long long>(load.resident_bytes_max - load.resident_bytes_begin), recovery,
      load.lag_us_p99);
  if (Lost(base_load) || Lost(load) || Lost(after)) return 1;
  if (tiny) return over.answered_per_second > 0 ? 0 : 1;
  const bool met = over.answered_per_second >= kGoodputMin * capacity &&
                   over.refusal_us_p999 < kRefusalUsMax &&
                   over.accepted_us_p99 <= kAcceptedRatioMax * base.accepted_us_p99 &&
                   recovery < kRecoverySecondsMax;
  return met ? 0 : 1;
}

// Measures the time from Push until the device has the search, with no other search waiting.
void RunLone(bool tiny) {
  const SteadyClock clock;
  const size_t rounds = tiny ? 200 : 20000;
  TimedDevice device({}, rounds);
  const std::shared_ptr<Collection> collection = *device.CreateCollection({.dim = 384});
  SearchQueue queue(SearchQueueLimits{}, &clock);
  std::vector<double> push_us;
  std::vector<double> device_us;
  std::vector<server::TimePoint> pushed;
  {
    server::PassCounter counter;
    const EngineThread thread({.engine = &device, .clock = &clock, .counter = &counter}, &queue);
    for (size_t i = 0; i < rounds; ++i) {
      std::atomic<bool> done{false};
      server::SearchTicket ticket = OneQuery(collection);
      ticket.deadline = clock.Now() + std::chrono::seconds(60);
      ticket.done = [&done](const absl::StatusOr<server::SearchReply>&) { done = true; };
      pushed.push_back(clock.Now());
      if (!queue.Push(std::move(ticket)).ok()) std::abort();
      push_us.push_back(server::ExactMicrosBetween(pushed.back(), clock.Now()));
      while (!done) std::this_thread::yield();
    }
  }
  const std::vector<TimedPass> passes = device.TakePasses();
  for (size_t i = 0; i < passes.size(); ++i) {
    device_us.push_back(server::ExactMicrosBetween(pushed[i], passes[i].begin));
  }
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\":\"queue_lone\",\"searches\":%zu,\"push_us_p50\":%.2f,"
      "\"push_us_p99\":%.2f,\"to_device_us_p50\":%.2f,\"to_device_us_p99\":%.2f}\n",
      rounds, Quantile(push_us, 0.5), Quantile(push_us, 0.99), Quantile(device_us, 0.5),
      Quantile(device_us, 0.99));
}

// Measures the time from the end of a pass to the start of the next, with a full batch always
// waiting.
void RunGap(int64_t batch, bool tiny) {
  const SteadyClock clock;
  const int64_t passes_count = tiny ? 20 : 400;
  const DeviceTimes times = {.pass_us = batch > 100 ? 5000.0 : 1000.0, .query_us = 0};
  TimedDevice device(times, static_cast<size_t>(2 * passes_count));
  const std::shared_ptr<Collection> collection = *device.CreateCollection({.dim = 384});
  SearchQueue queue(SearchQueueLimits{.requests_max = 4 * batch + 4, .batch_max = batch}, &clock);
  {
    std::atomic<int64_t> ended{0};
    server::PassCounter counter;
    const EngineThread thread({.engine = &device, .clock = &clock, .counter = &counter}, &queue);
    for (int64_t sent = 0; sent < batch * passes_count;) {
      if (sent - ended >= 3 * batch) {
        // Poll: a wake-up by the engine thread would add to the gap.
        std::this_thread::sleep_for(kPollEvery);  // tidy: allow(sleep): see above
        continue;
      }
      server::SearchTicket ticket = OneQuery(collection);
      ticket.deadline = clock.Now() + std::chrono::seconds(60);
      ticket.done = [&ended](const absl::StatusOr<server::SearchReply>&) { ++ended; };
      if (!queue.Push(std::move(ticket)).ok()) std::abort();
      ++sent;
    }
    while (ended.load() < batch * passes_count) std::this_thread::yield();
  }
  const std::vector<TimedPass> passes = device.TakePasses();
  std::vector<double> gaps;
  for (size_t i = 3; i + 3 < passes.size(); ++i) {
    if (passes[i + 1].queries == batch) {
      gaps.push_back(server::ExactMicrosBetween(passes[i].end, passes[i + 1].begin));
    }
  }
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\":\"queue_gap\",\"batch\":%lld,\"passes\":%zu,"
      "\"gap_us_p50\":%.1f,\"gap_us_p90\":%.1f,\"gap_us_p99\":%.1f}\n",
      static_cast<long long>(batch), gaps.size(), Quantile(gaps, 0.5), Quantile(gaps, 0.9),
      Quantile(gaps, 0.99));
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("overload_bench: the search queue under five times the load of the device");
  bool tiny = false;
  double seconds = 60;
  nearfield::bench::AddTiny(app, [&] {
    tiny = true;
    seconds = 1;
  });
  nearfield::bench::AddPositive(app, "--seconds", seconds, "of the overload")->excludes("--tiny");
  CLI11_PARSE(app, argc, argv);
  nearfield::bench::RunLone(tiny);
  for (const int64_t batch : {1, 8, 64, 1024}) nearfield::bench::RunGap(batch, tiny);
  return nearfield::bench::RunOverload(tiny, seconds);
}

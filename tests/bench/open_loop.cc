#include "tests/bench/open_loop.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace nearfield::bench {
namespace {

using server::TimePoint;

// Interval between two readings of memory use.
constexpr std::chrono::milliseconds kLookEvery(50);

Sample::End EndOf(const absl::Status& status) {
  if (status.ok()) return Sample::End::kAnswered;
  if (absl::IsResourceExhausted(status)) return Sample::End::kRefused;
  return absl::IsDeadlineExceeded(status) ? Sample::End::kExpired : Sample::End::kOther;
}

struct Load {
  const LoadSpec& spec;
  const std::shared_ptr<const Collection>& collection;
  const server::Clock& clock;
  server::SearchQueue* queue;
  TimePoint begin;
  std::vector<Sample> samples;
  std::vector<float> lags_us;
  std::mutex mutex;
  std::condition_variable all_ended;
  int64_t ended = 0;
  std::atomic<int64_t> answered_twice{0};

  void End(size_t index, TimePoint arrived, const absl::Status& status) {
    Sample& sample = samples[index];
    if (sample.end != Sample::End::kPending) ++answered_twice;
    sample.took_us = static_cast<float>(server::ExactMicrosBetween(arrived, clock.Now()));
    sample.end = EndOf(status);
    // Under the lock: the waiting thread may destroy the load as soon as the last search has ended.
    const std::lock_guard lock(mutex);
    ++ended;
    if (ended == static_cast<int64_t>(samples.size())) all_ended.notify_one();
  }

  void Send(size_t index, const std::string& caller, bool quiet) {
    const TimePoint arrived = clock.Now();
    samples[index].at_us = static_cast<float>(server::ExactMicrosBetween(begin, arrived));
    samples[index].quiet = quiet;
    server::SearchTicket ticket = OneQuery(collection);
    ticket.caller = caller;
    ticket.deadline = arrived + std::chrono::microseconds(static_cast<int64_t>(spec.deadline_us));
    ticket.done = [this, index, arrived](const absl::StatusOr<server::SearchReply>& reply) {
      End(index, arrived, reply.status());
    };
    const absl::Status pushed = queue->Push(std::move(ticket));
    if (!pushed.ok()) End(index, arrived, pushed);
  }
};

// Time and caller of a search. All are drawn before the load starts, so that drawing does not delay
// it.
struct Arrival {
  double at_us = 0;
  int64_t caller = -1;  // -1: the quiet one
};

std::vector<Arrival> DrawArrivals(const LoadSpec& spec) {
  std::mt19937_64 random(spec.seed);
  std::uniform_int_distribution<int64_t> caller(0, spec.callers - 1);
  std::vector<Arrival> arrivals;
  const auto draw = [&](double rate, bool quiet) {
    if (rate <= 0) return;
    std::exponential_distribution<double> gap(rate / 1e6);
    for (double at = gap(random); at < spec.seconds * 1e6; at += gap(random)) {
      arrivals.push_back({.at_us = at, .caller = quiet ? -1 : caller(random)});
    }
  };
  draw(spec.rate, false);
  draw(spec.quiet_rate, true);
  std::sort(arrivals.begin(), arrivals.end(),
            [](const Arrival& a, const Arrival& b) { return a.at_us < b.at_us; });
  return arrivals;
}

}  // namespace

int64_t ResidentBytes() {
  long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  std::fclose(file);
  return static_cast<int64_t>(pages) * sysconf(_SC_PAGESIZE);
}

server::SearchTicket OneQuery(const std::shared_ptr<const Collection>& collection) {
  server::SearchTicket ticket;
  ticket.request.collection = collection;
  ticket.request.values.assign(static_cast<size_t>(collection->spec().dim), 1.0f);
  Query query;
  query.vector = ticket.request.values;
  ticket.request.queries.push_back(std::move(query));
  ticket.cancelled = server::MakeCancelFlag();
  return ticket;
}

LoadResult RunLoad(const LoadSpec& spec, const std::shared_ptr<const Collection>& collection,
                   const server::Clock& clock, server::SearchQueue* queue) {
  const std::vector<Arrival> arrivals = DrawArrivals(spec);
  std::vector<std::string> names;
  for (int64_t i = 0; i < spec.callers; ++i) names.push_back("caller " + std::to_string(i));
  Load load{.spec = spec, .collection = collection, .clock = clock, .queue = queue};
  load.samples.resize(arrivals.size());
  load.lags_us.resize(arrivals.size());
  LoadResult result;
  result.resident_bytes_begin = ResidentBytes();
  load.begin = clock.Now();
  TimePoint looked = load.begin;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const auto due =
        load.begin + std::chrono::nanoseconds(static_cast<int64_t>(arrivals[i].at_us * 1000));
    TimePoint now = clock.Now();
    if (now < due) {
      std::this_thread::sleep_until(due);  // tidy: allow(sleep): the load is a schedule
      now = clock.Now();
    }
    load.lags_us[i] = static_cast<float>(server::ExactMicrosBetween(due, now));
    const bool quiet = arrivals[i].caller < 0;
    load.Send(i, quiet ? "quiet" : names[static_cast<size_t>(arrivals[i].caller)], quiet);
    if (now - looked >= kLookEvery) {
      looked = now;
      result.waiting_bytes_max = std::max(result.waiting_bytes_max, queue->waiting_bytes());
      result.resident_bytes_max = std::max(result.resident_bytes_max, ResidentBytes());
    }
  }
  result.seconds = server::ExactMicrosBetween(load.begin, clock.Now()) / 1e6;
  {
    std::unique_lock lock(load.mutex);
    load.all_ended.wait(lock, [&] { return load.ended == static_cast<int64_t>(arrivals.size()); });
  }
  std::sort(load.lags_us.begin(), load.lags_us.end());
  if (!load.lags_us.empty()) result.lag_us_p99 = load.lags_us[load.lags_us.size() * 99 / 100];
  result.samples = std::move(load.samples);
  result.answered_twice = load.answered_twice;
  return result;
}

}  // namespace nearfield::bench

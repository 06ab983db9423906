#include "tests/bench/service_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nearfield::bench {
namespace {

using Clock = std::chrono::steady_clock;

void SearchOnce(const ServiceTarget& target, size_t caller, size_t number, Clock::time_point due,
                LoadTally* tally) {
  client::Client client = target.clients[caller % target.clients.size()];
  const size_t queries_count = target.queries.size() / target.dim;
  const std::span<const float> query(
      target.queries.data() + (number * 7919 + caller * 104729) % queries_count * target.dim,
      target.dim);
  client::SearchOptions options = {.k = target.k};
  if (!target.filters.empty()) options.filter = target.filters[caller];
  const auto answer = client.Search(target.collection, query, options);
  Note(answer.status(), due, tally);
  if (answer.ok()) tally->batch_sum += answer->cost.batch_size;
}

void Add(LoadTally part, LoadTally* sum) {
  sum->took_us.insert(sum->took_us.end(), part.took_us.begin(), part.took_us.end());
  sum->failed += part.failed;
  if (sum->error.empty()) sum->error = std::move(part.error);
  sum->batch_sum += part.batch_sum;
}

// Runs `work(caller, tally)` on one thread for each caller.
LoadTally RunCallers(int32_t callers, const std::function<void(size_t, LoadTally*)>& work) {
  std::vector<LoadTally> tallies(static_cast<size_t>(callers));
  std::vector<std::thread> threads;
  const Clock::time_point begin = Clock::now();
  for (size_t caller = 0; caller < tallies.size(); ++caller) {
    threads.emplace_back([&, caller] { work(caller, &tallies[caller]); });
  }
  for (std::thread& thread : threads) thread.join();
  LoadTally sum;
  sum.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (LoadTally& tally : tallies) Add(std::move(tally), &sum);
  return sum;
}

LoadTally RunClosedLoop(const Load& load, uint64_t seed, const CallOnce& call) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(load.seconds));
  return RunCallers(load.callers, [&](size_t caller, LoadTally* tally) {
    for (size_t number = seed; Clock::now() < end; ++number) {
      call(caller, number, Clock::now(), tally);
    }
  });
}

LoadTally RunOpenLoop(const Load& load, uint64_t seed, const CallOnce& call) {
  std::mutex mutex;
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(load.rate);
  const Clock::time_point begin = Clock::now();
  double next_s = 0;  // when the next call is due; guarded by mutex
  size_t next_number = seed;
  return RunCallers(load.callers, [&](size_t caller, LoadTally* tally) {
    while (true) {
      double due_s = 0;
      size_t number = 0;
      {
        const std::lock_guard lock(mutex);
        due_s = next_s += gap(random);
        number = next_number++;
      }
      if (due_s >= load.seconds) return;
      const Clock::time_point due =
          begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(due_s));
      std::this_thread::sleep_until(due);  // tidy: allow(sleep): the load is a schedule
      call(caller, number, due, tally);
    }
  });
}

}  // namespace

client::Filter LotFilter(size_t caller, double share) {
  const auto first = static_cast<int64_t>(caller) % kLots;
  const int64_t end = first + std::max<int64_t>(1, std::llround(share * kLots));
  const bool wraps = end > kLots;
  return client::Filter(absl::StrCat(kLotAttribute, " >= ", first, wraps ? " or " : " and ",
                                     kLotAttribute, " < ", wraps ? end - kLots : end));
}

void Note(const absl::Status& status, Clock::time_point due, LoadTally* tally) {
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - due).count();
  if (status.ok()) {
    tally->took_us.push_back(us);
  } else if (tally->failed++ == 0) {
    tally->error = status.ToString();
  }
}

LoadTally RunCalls(const Load& load, uint64_t seed, const CallOnce& call) {
  return load.rate > 0 ? RunOpenLoop(load, seed, call) : RunClosedLoop(load, seed, call);
}

LoadTally RunLoad(const ServiceTarget& target, const Load& load, uint64_t seed) {
  return RunCalls(load, seed,
                  [&target](size_t caller, size_t number, Clock::time_point due, LoadTally* tally) {
                    SearchOnce(target, caller, number, due, tally);
                  });
}

LoadFigures Summarize(const std::vector<LoadTally>& tallies) {
  LoadFigures figures;
  std::vector<double> all;
  for (const LoadTally& tally : tallies) {
    all.insert(all.end(), tally.took_us.begin(), tally.took_us.end());
    figures.failed += tally.failed;
    if (figures.error.empty()) figures.error = tally.error;
    figures.batch_mean += tally.batch_sum;
    figures.per_second += static_cast<double>(tally.took_us.size()) / tally.seconds;
  }
  figures.answered = static_cast<int64_t>(all.size());
  if (all.empty()) return figures;
  figures.batch_mean /= static_cast<double>(all.size());
  std::sort(all.begin(), all.end());
  const auto quantile = [&all](double q) {
    return all[static_cast<size_t>(q * static_cast<double>(all.size() - 1))];
  };
  figures.p50_us = quantile(0.5);
  figures.p99_us = quantile(0.99);
  figures.p999_us = quantile(0.999);
  figures.max_us = all.back();
  return figures;
}

}  // namespace nearfield::bench

// SearchHistory: what searches cost since the start of the server, for the lines of the page.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/rpc/server_state.h"
#include "server/telemetry/histogram.h"

namespace nearfield::server {

// The sums at one moment. Two moments give the rates, means and quantiles of the time between them.
struct SearchMoment {
  int64_t unix_ms = 0;
  int64_t refused = 0;  // calls of every method
  // Searches that reached the device, and their times.
  int64_t timed = 0;
  int64_t queue_us = 0;
  int64_t device_us = 0;
  std::array<int64_t, kTimeBucketsUs.size() + 1> by_time{};  // all searches, in kTimeBucketsUs
};

// Keeps moments in a fixed memory, about 70 KiB: the last kRecentMax, and up to kWholeMax that are
// evenly spaced since the first one. When these are full, every second one is dropped.
class SearchMoments {
 public:
  static constexpr size_t kRecentMax = 121;
  static constexpr size_t kWholeMax = 240;

  SearchMoments() { whole_.reserve(kWholeMax); }
  void Add(const SearchMoment& moment);
  // Return the oldest moment first.
  std::vector<SearchMoment> recent() const;
  const std::vector<SearchMoment>& whole() const { return whole_; }

 private:
  std::array<SearchMoment, kRecentMax> recent_;  // a ring
  std::vector<SearchMoment> whole_;              // every stride_-th moment
  size_t count_ = 0;
  size_t stride_ = 1;
};

// Thread-safe.
class SearchHistory {
 public:
  static constexpr std::chrono::seconds kEvery{1};

  // Takes a moment now and every kEvery, until the timers of the state end.
  static std::shared_ptr<SearchHistory> Start(ServerState* state);
  // Returns the time now and both lists of moments.
  std::string Json() const;

 private:
  explicit SearchHistory(ServerState* state) : state_(state) {}
  static void Tick(const std::shared_ptr<SearchHistory>& history);
  void Take();

  ServerState* const state_;
  mutable Mutex mutex_;
  SearchMoments moments_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

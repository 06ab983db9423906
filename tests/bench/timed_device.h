// A device that computes nothing and takes a known time, to measure the code in front of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::bench {

// One Engine::Search, as seen by the device.
struct TimedPass {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  int64_t queries = 0;
};

// Times of the device: a pass sleeps for pass_us plus query_us per query.
struct DeviceTimes {
  double pass_us = 0;
  double query_us = 0;
  double Of(int64_t queries) const { return pass_us + query_us * static_cast<double>(queries); }
  // Returns the queries per second in passes of `queries`.
  double Capacity(int64_t queries) const {
    return static_cast<double>(queries) * 1e6 / Of(queries);
  }
};

// Answers each query with an empty result. Requires: one thread at a time calls Search.
class TimedDevice final : public Engine {
 public:
  // Records at most `passes_max` passes.
  TimedDevice(const DeviceTimes& times, size_t passes_max);

  // Requires: no search runs.
  void SetTimes(const DeviceTimes& times);
  // Returns the passes since the last call. Requires: no search runs.
  std::vector<TimedPass> TakePasses();

  EngineInfo Info() const override { return {}; }
  Capacity GetCapacity() const override { return {}; }
  absl::Status Health() const override { return absl::OkStatus(); }
  using Engine::CreateCollection;
  absl::StatusOr<std::shared_ptr<Collection>> CreateCollection(const CollectionSpec& spec,
                                                               uint64_t epoch) override;
  absl::StatusOr<SearchResult> Search(const Collection& collection,
                                      const SearchBatch& batch) override;
  absl::StatusOr<VerifyResult> Verify(const Collection& collection, const Claim& claim,
                                      const std::function<bool()>& cancelled) override;
  absl::Status SelfTest(uint64_t seed) override;

 private:
  const testing::FakeEngine rows_ = testing::MakeFakeEngine();  // of the collections, all empty
  DeviceTimes times_;
  const size_t passes_max_;
  std::vector<TimedPass> passes_;
};

}  // namespace nearfield::bench

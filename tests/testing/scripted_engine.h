// ScriptedEngine: the engine over a fake device, for tests of its callers. Gates hold its calls,
// and a script makes them fail and records them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/testing/fake_backend.h"

namespace nearfield::testing {

// Holds callers until it is opened, and reports how many arrived.
class Gate {
 public:
  // Later callers of Pass wait.
  void Close();
  void Open();
  // Waits until the gate is open or `give_up` returns true.
  void Pass(const std::function<bool()>& give_up = nullptr);
  // Waits until `count` callers have arrived at the closed gate since Close.
  void AwaitArrivals(int64_t count);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int64_t arrivals_ = 0;
};

// Shared between a test and the engine that it passes to the tested code.
struct EngineScript {
  // The memory and the faults of the device.
  const std::shared_ptr<FakeDevice> device =
      std::make_shared<FakeDevice>(FakeDeviceOptions{.memory_bytes = int64_t{1} << 30,
                                                     .host_rows_bytes = 1 << 22,
                                                     .host_rows_bytes_used = 1 << 21,
                                                     .search_us = 7});
  Gate search_gate;
  Gate self_test_gate;
  Gate append_gate;
  Gate commit_gate;
  Gate verify_gate;
  Gate filter_gate;  // filters by id wait here during their evaluation
  std::atomic<bool> self_test_differs{false};
  // If true, searches ignore `cancelled`.
  std::atomic<bool> deaf_searches{false};
  std::atomic<int64_t> searches{0};
  std::atomic<int64_t> cancelled_searches{0};
  std::atomic<int64_t> uploads_open{0};
  // Loses the device in the search with this number; 0: never.
  std::atomic<int64_t> lose_at_search{0};
  std::atomic<int64_t> read_bytes_per_second{0};
  // Escalations that every search reports.
  std::atomic<int64_t> escalations_tighter{0};
  std::atomic<int64_t> escalations_canonical{0};

  // Called with each correct answer of a search, to corrupt it.
  void CorruptAnswers(std::function<void(Neighbors*)> corrupt);
  void Corrupt(Neighbors* neighbors) const;

  // Returns the sizes of the batches searched, in order.
  std::vector<int64_t> batch_sizes() const;
  void NoteBatch(int64_t size);

 private:
  mutable std::mutex mutex_;
  std::function<void(Neighbors*)> corrupt_;
  std::vector<int64_t> batch_sizes_;
};

std::unique_ptr<Engine> MakeScriptedEngine(std::shared_ptr<EngineScript> script);

}  // namespace nearfield::testing

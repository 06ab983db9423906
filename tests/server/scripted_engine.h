// ScriptedEngine: an engine for the server's tests. It uses brute force in host memory, and a
// script of faults and gates.
#ifndef NEARFIELD_TESTS_SERVER_SCRIPTED_ENGINE_H_
#define NEARFIELD_TESTS_SERVER_SCRIPTED_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "nearfield/engine/engine.h"

namespace nearfield::server {

// Holds callers until it is opened, and reports how many arrived.
class Gate {
 public:
  // From now on callers of Pass wait.
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

// Shared between a test and the engine that it passes to a server.
struct EngineScript {
  Gate search_gate;
  Gate self_test_gate;
  Gate append_gate;
  Gate commit_gate;
  Gate verify_gate;
  Gate filter_gate;  // filters by id wait here during their evaluation
  std::atomic<bool> device_lost{false};
  std::atomic<bool> self_test_differs{false};
  // If true, searches ignore `cancelled`.
  std::atomic<bool> deaf_searches{false};
  std::atomic<int64_t> searches{0};
  std::atomic<int64_t> pins{0};  // calls of PinEpoch, for all collections
  std::atomic<int64_t> cancelled_searches{0};
  std::atomic<int64_t> uploads_open{0};
  std::atomic<int64_t> device_bytes_total{int64_t{1} << 30};
  std::atomic<int64_t> device_bytes_used{0};
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

}  // namespace nearfield::server

#endif  // NEARFIELD_TESTS_SERVER_SCRIPTED_ENGINE_H_

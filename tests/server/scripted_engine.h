// An engine for the server's tests: plain brute force in host memory, and a script of faults and
// gates.
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

// Holds callers back until it is opened, and tells when somebody is held.
class Gate {
 public:
  // From now on callers of Pass wait.
  void Close();
  void Open();
  // Waits while the gate is closed, and no longer than `give_up` says.
  void Pass(const std::function<bool()>& give_up = nullptr);
  // Waits until `count` callers have come to the closed gate since Close.
  void AwaitArrivals(int64_t count);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int64_t arrivals_ = 0;
};

// Shared between a test and the engine that it gives away.
struct EngineScript {
  Gate search_gate;
  Gate self_test_gate;
  Gate append_gate;
  Gate commit_gate;
  Gate verify_gate;
  Gate filter_gate;  // of filters by id, while they are evaluated
  std::atomic<bool> device_lost{false};
  std::atomic<bool> self_test_differs{false};
  // Searches do not look at `cancelled`.
  std::atomic<bool> deaf_searches{false};
  std::atomic<int64_t> searches{0};
  std::atomic<int64_t> pins{0};  // of an epoch, of any collection
  std::atomic<int64_t> cancelled_searches{0};
  std::atomic<int64_t> uploads_open{0};
  std::atomic<int64_t> device_bytes_total{int64_t{1} << 30};
  std::atomic<int64_t> device_bytes_used{0};
  // Loses the device in the search with this number; 0: never.
  std::atomic<int64_t> lose_at_search{0};
  std::atomic<int64_t> read_bytes_per_second{0};
  // Of every search.
  std::atomic<int64_t> escalations_tighter{0};
  std::atomic<int64_t> escalations_canonical{0};

  // Called with each right answer of a search, to make it a wrong one.
  void CorruptAnswers(std::function<void(Neighbors*)> corrupt);
  void Corrupt(Neighbors* neighbors) const;

  // Sizes of the batches searched, in order.
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

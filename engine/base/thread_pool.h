// ThreadPool: threads that are created once, wake quickly, and need no allocation per task.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/base/mutex.h"

namespace nearfield {

class ThreadPool {
 public:
  using Body = absl::FunctionRef<void(int32_t worker)>;

  // threads_count >= 1 includes the caller of Run: one thread fewer is started.
  explicit ThreadPool(int32_t threads_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads_count() const { return static_cast<int32_t>(workers_.size()) + 1; }

  // Calls body(0) on this thread and concurrently body(w) for w = 1 .. participants-1, except for
  // workers that have not started yet when body(0) returns: those are not waited for. So body(0)
  // must do all work that the others have not taken (a shared counter hands it out). Returns when
  // all started bodies have returned. Requires: 1 <= participants <= threads_count(). Only one Run
  // at a time: the callers must serialize their calls. If bodies throw, rethrows the first
  // exception after all bodies have returned; the pool stays usable. Cost: several microseconds to
  // wake sleeping workers, less than one while they still spin.
  void Run(int32_t participants, Body body);

 private:
  // An event that one thread waits for: it spins for a while, then sleeps.
  class alignas(64) Signal {
   public:
    void Raise();
    void Wait();

   private:
    std::atomic<bool> raised_{false};
    std::atomic<bool> sleeping_{false};
    Mutex mutex_;
    CondVar condition_;
  };

  struct Worker {
    Signal start;
    std::thread thread;
    // True: body_ still has a call for this worker. The thread that clears it has the call: the
    // worker, or the caller of Run, which drops it. A signal alone may be one of an earlier Run.
    std::atomic<bool> called{false};
  };

  void Work(int32_t worker);
  // Calls the body and keeps the first exception of this Run.
  void CallBody(int32_t worker) noexcept;
  void WakeChildren(int32_t worker);
  // Takes back the calls of workers that have not started. Returns their number.
  int32_t Withdraw();

  std::vector<std::unique_ptr<Worker>> workers_;  // of index 1, 2, ...
  std::atomic<bool> ending_{false};
  // State of the Run in progress: written before `called` is set, constant until the last worker
  // is done.
  const Body* body_ = nullptr;
  int32_t participants_ = 0;
  std::atomic<int32_t> running_{0};  // participants that have not ended, with the caller
  std::atomic<bool> threw_{false};
  std::exception_ptr exception_;  // written once, by the body that set threw_
  Signal finished_;
};

}  // namespace nearfield

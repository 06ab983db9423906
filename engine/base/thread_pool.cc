#include "engine/base/thread_pool.h"

#include <chrono>
#include <utility>

#include "engine/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nearfield {
namespace {

// How long a thread spins before it sleeps. Longer than the gap between two generations of one
// search, and short enough that an idle server uses no CPU time. Waking a sleeping thread costs
// about 5 to 50 us on a virtual machine.
constexpr std::chrono::microseconds kSpin{50};

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

void ThreadPool::Signal::Raise() {
  raised_.store(true);
  // Sequentially consistent on both sides: either this thread sees the sleeper, or the sleeper sees
  // the flag before it sleeps.
  if (!sleeping_.load()) return;
  const MutexLock lock(mutex_);
  condition_.NotifyOne();
}

void ThreadPool::Signal::Wait() {
  const auto spin_end = std::chrono::steady_clock::now() + kSpin;
  while (!raised_.load(std::memory_order_acquire)) {
    for (int i = 0; i < 8 && !raised_.load(std::memory_order_relaxed); ++i) Pause();
    if (std::chrono::steady_clock::now() < spin_end) continue;
    MutexLock lock(mutex_);
    sleeping_.store(true);
    while (!raised_.load()) condition_.Wait(lock);
    sleeping_.store(false);
  }
  raised_.store(false, std::memory_order_relaxed);
}

ThreadPool::ThreadPool(int32_t threads_count) {
  for (int32_t i = 1; i < threads_count; ++i) workers_.push_back(std::make_unique<Worker>());
  for (int32_t i = 1; i < threads_count; ++i) {
    workers_[static_cast<size_t>(i - 1)]->thread = std::thread([this, i] { Work(i); });
  }
}

ThreadPool::~ThreadPool() {
  ending_.store(true);
  for (const auto& worker : workers_) worker->start.Raise();
  for (const auto& worker : workers_) worker->thread.join();
}

// Wakes the workers as a tree: the caller wakes two, and each of them two more, so that 64 are
// awake after the time of six wake-ups.
void ThreadPool::WakeChildren(int32_t worker) {
  for (int32_t child = 2 * worker + 1; child <= 2 * worker + 2 && child < participants_; ++child) {
    workers_[static_cast<size_t>(child - 1)]->start.Raise();
  }
}

void ThreadPool::Work(int32_t worker) {
  for (;;) {
    Worker& self = *workers_[static_cast<size_t>(worker - 1)];
    self.start.Wait();
    if (ending_.load()) return;
    if (!self.called.exchange(false, std::memory_order_acq_rel)) continue;
    WakeChildren(worker);
    CallBody(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) finished_.Raise();
  }
}

void ThreadPool::CallBody(int32_t worker) noexcept {
  try {
    (*body_)(worker);
  } catch (...) {
    if (!threw_.exchange(true)) exception_ = std::current_exception();
  }
}

int32_t ThreadPool::Withdraw() {
  int32_t withdrawn = 0;
  for (int32_t i = 1; i < participants_; ++i) {
    std::atomic<bool>& called = workers_[static_cast<size_t>(i - 1)]->called;
    if (called.exchange(false, std::memory_order_acq_rel)) ++withdrawn;
  }
  return withdrawn;
}

void ThreadPool::Run(int32_t participants, Body body) {
  CHECK(1 <= participants && participants <= threads_count());
  if (participants == 1) return body(0);
  body_ = &body;
  participants_ = participants;
  running_.store(participants, std::memory_order_relaxed);
  // Children before their parents: a worker that a late signal wakes now finds them called.
  for (int32_t i = participants - 1; i >= 1; --i) {
    workers_[static_cast<size_t>(i - 1)]->called.store(true, std::memory_order_release);
  }
  WakeChildren(0);
  CallBody(0);
  const int32_t ended = 1 + Withdraw();
  if (running_.fetch_sub(ended, std::memory_order_acq_rel) != ended) finished_.Wait();
  if (threw_.exchange(false)) std::rethrow_exception(std::exchange(exception_, nullptr));
}

}  // namespace nearfield

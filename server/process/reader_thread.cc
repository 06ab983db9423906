#include "server/process/reader_thread.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

namespace {
constexpr milliseconds kEndWait{1000};
}  // namespace

struct ReaderThread::Shared {
  // Waits for the next call of `read`. Returns false at the end.
  bool AwaitNext(milliseconds period) {
    MutexLock lock(mutex);
    const auto next = Steady::now() + period;
    while (!woken && !ending) {
      if (period == milliseconds::zero()) {
        changed.Wait(lock);
      } else if (!changed.WaitUntil(lock, next)) {
        break;
      }
    }
    woken = false;
    return !ending;
  }
  void Loop(const std::function<void()>& read, milliseconds period) {
    while (AwaitNext(period)) read();
    const MutexLock lock(mutex);
    ended = true;
    changed.NotifyAll();
  }
  // Returns false if the thread hangs.
  bool End() {
    MutexLock lock(mutex);
    ending = true;
    changed.NotifyAll();
    const auto latest = Steady::now() + kEndWait;
    while (!ended && changed.WaitUntil(lock, latest)) {
    }
    return ended;
  }

  Mutex mutex;
  CondVar changed;
  bool woken ABSL_GUARDED_BY(mutex) = false;
  bool ending ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
};

ReaderThread::ReaderThread(std::function<void()> read, milliseconds period)
    : shared_(std::make_shared<Shared>()),
      thread_([shared = shared_, read = std::move(read), period] { shared->Loop(read, period); }) {}

ReaderThread::~ReaderThread() {
  if (shared_->End()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void ReaderThread::Wake() {
  const MutexLock lock(shared_->mutex);
  shared_->woken = true;
  shared_->changed.NotifyAll();
}

}  // namespace nearfield::server

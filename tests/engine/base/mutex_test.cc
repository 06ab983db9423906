#include "engine/base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace nearfield {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::minutes kLong(10);

// A door that one thread opens and another waits for.
struct Door {
  Mutex mutex;
  CondVar changed;
  bool awaited ABSL_GUARDED_BY(mutex) = false;
  bool open ABSL_GUARDED_BY(mutex) = false;
};

// Returns once the other thread waits: it can take the lock only while that thread has released it.
void AwaitWaiter(Door* door) {
  MutexLock lock(door->mutex);
  while (!door->awaited) door->changed.Wait(lock);
}

void Open(Door* door) {
  {
    const MutexLock lock(door->mutex);
    door->open = true;
  }
  door->changed.NotifyAll();
}

// Returns true if another thread can lock the mutex.
bool IsFree(Mutex* mutex) {
  bool locked = false;
  std::thread([&] {
    if (!mutex->TryLock()) return;
    const MutexLock lock(*mutex, std::adopt_lock);
    locked = true;
  }).join();
  return locked;
}

TEST(MutexTest, ALockHoldsTheMutexToTheEndOfItsScope) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(IsFree(&mutex));
  }
  EXPECT_TRUE(IsFree(&mutex));
}

TEST(MutexTest, AnAdoptedMutexIsReleasedAtTheEndOfTheScope) {
  Mutex mutex;
  EXPECT_TRUE(IsFree(&mutex));
  EXPECT_TRUE(IsFree(&mutex));
}

TEST(MutexTest, ALockCanReleaseTheMutexForAWhile) {
  Mutex mutex;
  MutexLock lock(mutex);
  lock.Unlock();
  EXPECT_TRUE(IsFree(&mutex));
  lock.Lock();
  EXPECT_FALSE(IsFree(&mutex));
  lock.Unlock();
}

TEST(CondVarTest, WaitReleasesTheMutexAndReturnsAfterANotification) {
  Door door;
  std::thread opener([&] {
    AwaitWaiter(&door);
    Open(&door);
  });
  {
    MutexLock lock(door.mutex);
    door.awaited = true;
    door.changed.NotifyOne();
    while (!door.open) door.changed.Wait(lock);
    EXPECT_FALSE(IsFree(&door.mutex));
  }
  opener.join();
}

TEST(CondVarTest, WaitUntilReturnsBeforeItsDeadlineAfterANotification) {
  Door door;
  std::thread opener([&] {
    AwaitWaiter(&door);
    Open(&door);
  });
  {
    const auto deadline = steady_clock::now() + kLong;
    MutexLock lock(door.mutex);
    door.awaited = true;
    door.changed.NotifyOne();
    while (!door.open && door.changed.WaitUntil(lock, deadline)) {
    }
    EXPECT_TRUE(door.open);
    EXPECT_LT(steady_clock::now(), deadline);
  }
  opener.join();
}

TEST(CondVarTest, WaitUntilReturnsFalseAfterItsDeadlineWithTheMutexHeld) {
  Door door;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(5);
  MutexLock lock(door.mutex);
  while (door.changed.WaitUntil(lock, deadline)) {
  }
  EXPECT_GE(steady_clock::now(), deadline);
  EXPECT_FALSE(IsFree(&door.mutex));
}

// The other thread needs the mutex to open the door: an open door proves that the wait released it.
TEST(CondVarTest, WaitUntilReleasesTheMutexUntilItsDeadline) {
  Door door;
  std::thread opener([&] { Open(&door); });
  MutexLock lock(door.mutex);
  while (!door.open) {
    door.changed.WaitUntil(lock, steady_clock::now() + std::chrono::milliseconds(1));
  }
  lock.Unlock();
  opener.join();
}

TEST(CondVarTest, WaitForReturnsFalseAfterItsTime) {
  Door door;
  const auto begin = steady_clock::now();
  MutexLock lock(door.mutex);
  const auto time = std::chrono::milliseconds(5);
  while (door.changed.WaitFor(lock, time)) {
  }
  EXPECT_GE(steady_clock::now(), begin + time);
}

}  // namespace
}  // namespace nearfield

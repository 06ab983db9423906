// A backend for tests of the code that uses backends. It keeps rows in vectors, computes exact
// scores with engine/score and sorts all of them. A test can script faults and block a search in a
// hook. The memory of its device is host memory, also for searches on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"

namespace nearfield::testing {

class FakeRowPlanes;

struct FakeDeviceOptions {
  BackendKind kind = BackendKind::kCpu;
  int64_t memory_bytes = int64_t{64} << 20;
  int64_t host_rows_bytes = 0;
  int64_t host_rows_bytes_used = 0;  // reported; no row lies there
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
  int32_t scan_dim_max = kDimMax;
  double read_bytes_per_second = 0;
  // Reported, but the device does not compute terms: for tests in which its searches with them
  // fail.
  bool row_terms = false;
  int64_t search_us = 1;  // reported for each call of Search
  // Maximum rows of a Search that finishes queries; 0: it finishes none. `lends`: the answers may
  // keep the memory of their rows.
  int64_t finished_rows_max = 0;
  bool lends = true;
};

enum class FakeCall : uint8_t {
  kReserve,
  kAppend,
  kAppendFrom,
  kSeal,
  kRead,  // Read and ReadRange
  kMakeTombstones,
  kSearch,
  kSearchOnDevice,
};

// The device of a FakeBackend: its memory and its faults. It outlives the backend if a test keeps a
// reference. Thread safety: thread-safe.
class FakeDevice {
 public:
  explicit FakeDevice(const FakeDeviceOptions& options) : options_(options) {}

  // Makes only the nth later call of this kind (1: the next) return `status`. The device
  // forgets an Unavailable, so the caller must remember it.
  void FailAt(FakeCall call, int64_t nth, absl::Status status);
  // Makes every later call return Unavailable.
  void Lose();
  // Sets a hook that runs in the middle of every search, without a lock. The hook may block or
  // change the corpus.
  void OnSearch(std::function<void()> hook);
  // Sets such a hook for every copy of rows by AppendFrom.
  void OnCopy(std::function<void()> hook);
  // Sets a hook that receives the correct answer of every search and may change it.
  void CorruptAnswers(std::function<void(backend::RankedLists*)> corrupt);

  // Flips one bit of the first resident row with these bytes, like a faulty memory cell. Returns
  // false if there is no such row. Requires: no other thread reads rows.
  bool FlipResidentBit(absl::Span<const uint8_t> row, int64_t bit);

  // Returns Unavailable if the device is lost.
  absl::Status Health() const;
  int64_t bytes_used() const;
  int64_t calls(FakeCall call) const;
  // Returns the number of rows that AppendFrom copied: the cost of merges.
  int64_t rows_copied() const;

 private:
  friend class FakeBackend;
  friend class FakeDeviceMemory;
  friend class FakeRowPlanes;
  friend class FakeTombstones;

  struct Fault {
    int64_t nth = 0;  // counts down
    absl::Status status;
  };

  // Counts the call. Returns its scripted fault, or Unavailable if the device is lost.
  absl::Status Enter(FakeCall call);
  absl::Status Take(int64_t bytes);
  void GiveBack(int64_t bytes);
  void CountCopied(int64_t rows);
  // Calls a hook of this device, if it is set, without the lock.
  template <typename Hook, typename... Args>
  void Call(const Hook& hook, Args... args) {
    std::unique_lock<std::mutex> lock(mutex_);
    const Hook copy = hook;
    lock.unlock();
    if (copy) copy(args...);
  }

  const FakeDeviceOptions options_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<FakeCall, Fault> faults_;
  std::map<FakeCall, int64_t> calls_;
  std::function<void()> on_search_;
  std::function<void()> on_copy_;
  std::function<void(backend::RankedLists*)> corrupt_;
  std::set<FakeRowPlanes*> planes_;  // all that exist
  bool lost_ = false;
  int64_t bytes_used_ = 0;
  int64_t rows_copied_ = 0;
};

std::unique_ptr<backend::Backend> MakeFakeBackend(std::shared_ptr<FakeDevice> device);

}  // namespace nearfield::testing

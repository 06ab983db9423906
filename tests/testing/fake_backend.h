// A backend for tests of what stands above backends: rows in plain vectors, exact scores by
// engine/score, everything sorted. Faults are scripted; a search can be held open by a hook.
#ifndef NEARFIELD_TESTS_TESTING_FAKE_BACKEND_H_
#define NEARFIELD_TESTS_TESTING_FAKE_BACKEND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/corpus/backend.h"

namespace nearfield::testing {

class FakeRowPlanes;

struct FakeDeviceOptions {
  BackendKind kind = BackendKind::kCpu;
  int64_t memory_bytes = int64_t{64} << 20;
  int64_t host_rows_bytes = 0;
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
  double read_bytes_per_second = 0;
};

enum class FakeCall : uint8_t {
  kReserve,
  kAppend,
  kAppendFrom,
  kSeal,
  kRead,  // Read and ReadRange
  kMakeTombstones,
  kSearch,
};

// The device behind a FakeBackend: its memory, its faults. Outlives the backend where a test holds
// it. Thread-safe.
class FakeDevice {
 public:
  explicit FakeDevice(const FakeDeviceOptions& options) : options_(options) {}

  // The nth call of this kind from now on (1: the next) returns `status`, that call alone: an
  // Unavailable is forgotten here, so that what stands above must remember it.
  void FailAt(FakeCall call, int64_t nth, absl::Status status);
  // Every later call returns Unavailable.
  void Lose();
  // Called in the middle of every search, without a lock: a test may wait there, or change the
  // corpus.
  void OnSearch(std::function<void()> hook);
  // The same in the middle of every copy of rows by AppendFrom.
  void OnCopy(std::function<void()> hook);
  // Called with the right answer of every search, to make it a wrong one.
  void CorruptAnswers(std::function<void(corpus::BestRows*)> corrupt);

  // Flips one bit of the first resident row with these bytes: what a bad memory cell does. False
  // where there is no such row. Requires that nothing reads rows meanwhile.
  bool FlipResidentBit(absl::Span<const uint8_t> row, int64_t bit);

  int64_t bytes_used() const;
  int64_t calls(FakeCall call) const;
  // Rows copied by AppendFrom: what merges cost.
  int64_t rows_copied() const;

 private:
  friend class FakeBackend;
  friend class FakeRowPlanes;
  friend class FakeTombstones;

  struct Fault {
    int64_t nth = 0;  // counts down
    absl::Status status;
  };

  // Counts the call; its scripted fault, or the loss of the device.
  absl::Status Enter(FakeCall call);
  absl::Status Health() const;
  absl::Status Take(int64_t bytes);
  void GiveBack(int64_t bytes);
  void CountCopied(int64_t rows);
  void RunCopyHook();

  const FakeDeviceOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<FakeCall, Fault> faults_;
  std::map<FakeCall, int64_t> calls_;
  std::function<void()> on_search_;
  std::function<void()> on_copy_;
  std::function<void(corpus::BestRows*)> corrupt_;
  std::set<FakeRowPlanes*> planes_;  // all there are
  bool lost_ = false;
  int64_t bytes_used_ = 0;
  int64_t rows_copied_ = 0;
};

std::unique_ptr<corpus::Backend> MakeFakeBackend(std::shared_ptr<FakeDevice> device);

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_TESTING_FAKE_BACKEND_H_

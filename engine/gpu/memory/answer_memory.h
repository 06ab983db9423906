// AnswerMemory: mapped host memory for the finished answers of one search. A kernel writes them
// there, and the caller reads them after the device works on the next search.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/gpu/runtime/device_health.h"

namespace nearfield::gpu {

class AnswerMemory {
 public:
  // Allocates room for rows_max rows of queries_max queries. Call once.
  absl::Status Create(DeviceHealth& health, int64_t rows_max, int64_t queries_max);

  AnswerArrays host() const { return ArraysAt(memory_.host()); }
  AnswerArrays device() const { return ArraysAt(memory_.device()); }

 private:
  AnswerArrays ArraysAt(char* base) const;

  PinnedMemory memory_;
  int64_t rows_max_ = 0;
};

// The memory of a few searches: those whose answers are being read, and the one that runs.
// Thread-safe.
class AnswerMemoryPool {
 public:
  // Call once, before any Take.
  absl::Status Create(DeviceHealth& health, int64_t rows_max, int64_t queries_max);

  // Returns memory that nobody else has, for as long as the pointer lives. Blocks until a holder
  // releases one if all are taken, so a thread must not hold two. The pool must outlive it.
  std::shared_ptr<AnswerMemory> Take();

 private:
  void GiveBack(AnswerMemory* memory);

  std::vector<std::unique_ptr<AnswerMemory>> all_;
  Mutex mutex_;
  CondVar given_back_;
  std::vector<AnswerMemory*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::gpu

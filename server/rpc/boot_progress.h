// BootProgress: how far the start of the server is, for calls that arrive before it serves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// Thread-safe.
class BootProgress {
 public:
  // The steps of the start, in this order.
  enum class Step : uint8_t { kEngine, kSelfTest, kLoading };

  // The loading of the stored collections.
  struct Loading {
    int64_t collections_loaded = 0;
    int64_t collections_count = 0;
    int64_t bytes_read = 0;  // of their files
    int64_t bytes_total = 0;
  };
  struct View {
    Step step = Step::kEngine;
    Loading loading;                      // all 0 before kLoading
    std::optional<int64_t> seconds_left;  // of the loading; absent: too early
  };

  // `clock` outlives this object.
  explicit BootProgress(const Clock* clock) : clock_(clock) {}

  void Begin(Step step);
  void Report(const Loading& loading);
  View Get() const;
  // Returns what the server does: "loading collections: 3 of 7, 41% of 12.3 GB, about 20 s left".
  std::string Text() const;

 private:
  const Clock* const clock_;
  mutable Mutex mutex_;
  Step step_ ABSL_GUARDED_BY(mutex_) = Step::kEngine;
  TimePoint loading_since_ ABSL_GUARDED_BY(mutex_);
  Loading loading_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

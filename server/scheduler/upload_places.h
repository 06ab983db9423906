// UploadPlaces: limits concurrent uploads, in total and for each caller, and evicts slow ones.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// Returns how many of `total` places one caller may hold: `percent`, but at least one.
int64_t CallerShareOf(int64_t total, int64_t percent);

// The places of running uploads. An upload must transfer a minimum number of bytes a second.
// Each upload has credit for at most one window of silence. A received byte earns the time that it
// takes at the minimum rate; time in which the server waits for the client spends credit. An upload
// without credit is slow. It loses its place, but only when another upload is refused for lack of
// that place.
// Thread-safe.
class UploadPlaces {
 private:
  struct Entry;

 public:
  struct Limits {
    int64_t places_max = 1;
    int64_t caller_places_max = 1;
    int64_t bytes_per_second_min = 0;  // 0: no upload is slow
    TimePoint::duration window{};
  };
  // `clock` outlives this object, which outlives every Place.
  UploadPlaces(const Limits& limits, const Clock* clock) : limits_(limits), clock_(clock) {}

  // Holds a place until it is destroyed.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // Stops the clock: the server works for the upload, and time spends no credit.
    void Pause();
    // Starts the clock: the server waits for the client again, after it received `bytes`.
    void Resume(int64_t bytes);

   private:
    friend class UploadPlaces;
    Place(UploadPlaces* places, std::list<Entry>::iterator entry)
        : places_(places), entry_(entry) {}

    UploadPlaces* const places_;
    const std::list<Entry>::iterator entry_;
  };

  // Called at most once, when the Take of another upload is refused. The upload should soon end
  // with this status. Must not call UploadPlaces.
  using Lose = std::function<void(const absl::Status&)>;
  // Errors: ResourceExhausted with a retry hint.
  absl::StatusOr<std::unique_ptr<Place>> Take(const std::string& caller, Lose lose);
  // Returns the number of places that are held.
  int64_t count() const;

 private:
  struct Entry {
    std::string caller;
    Lose lose;  // null after it was called
    bool paused = false;
    TimePoint slow_at;             // if not paused: when the credit is spent
    TimePoint::duration credit{};  // if paused
  };

  absl::Status Refuse(const std::string& caller, int64_t own, Lose* lose)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::list<Entry>::iterator SlowestOf(const std::string* caller)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SlowStatus() const;

  const Limits limits_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

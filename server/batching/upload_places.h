// The places of uploads: how many at once, in all and of one caller, and which one loses its place.
#ifndef NEARFIELD_SERVER_BATCHING_UPLOAD_PLACES_H_
#define NEARFIELD_SERVER_BATCHING_UPLOAD_PLACES_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/batching/clock.h"

namespace nearfield::server {

// What one caller may hold of `total` places: a share in percent, at least one.
int64_t CallerShareOf(int64_t total, int64_t percent);

// An upload must take over a minimum of bytes a second. It has credit for at most one window of
// silence: a byte taken over earns the time in which the minimum gives it, time in which the server
// waits for the client spends it. An upload without credit is slow: it loses its place, but only
// when another one is refused for want of that place. Thread-safe.
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
  // `clock` outlives the places, which outlive every Place.
  UploadPlaces(const Limits& limits, const Clock* clock) : limits_(limits), clock_(clock) {}
  UploadPlaces(const UploadPlaces&) = delete;
  UploadPlaces& operator=(const UploadPlaces&) = delete;

  // Holds a place until it is destroyed.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // The server works for the upload: time spends no credit.
    void Pause();
    // It waits for the client again, after it took over `bytes`.
    void Resume(int64_t bytes);

   private:
    friend class UploadPlaces;
    Place(UploadPlaces* places, std::list<Entry>::iterator entry)
        : places_(places), entry_(entry) {}

    UploadPlaces* const places_;
    const std::list<Entry>::iterator entry_;
  };

  // Called at most once, during a Take of another upload, which is refused: the upload should end
  // with this status soon. May not call the places.
  using Lose = std::function<void(const absl::Status&)>;
  // Errors: ResourceExhausted with a retry hint.
  absl::StatusOr<std::unique_ptr<Place>> Take(const std::string& caller, Lose lose);

 private:
  struct Entry {
    std::string caller;
    Lose lose;  // null once it is called
    bool paused = false;
    TimePoint slow_at;             // not paused: when the credit is spent
    TimePoint::duration credit{};  // paused
  };

  absl::Status Refuse(const std::string& caller, int64_t own, Lose* lose);
  std::list<Entry>::iterator SlowestOf(const std::string* caller);
  absl::Status SlowStatus() const;

  const Limits limits_;
  const Clock* const clock_;
  std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_UPLOAD_PLACES_H_

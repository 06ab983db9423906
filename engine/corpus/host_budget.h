// HostBudget: accounts for the host memory of ids and payloads, so that an upload that cannot fit
// is refused before its first row.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"

namespace nearfield::corpus {

class HostBudget;

// A reserved part of the budget. The destructor releases it. Movable; not thread-safe.
class HostReservation {
 public:
  HostReservation() = default;
  HostReservation(HostReservation&& other) noexcept;
  HostReservation& operator=(HostReservation&& other) noexcept;
  ~HostReservation();

  int64_t bytes() const { return bytes_; }
  // Reserves more. Errors: as HostBudget::Reserve. Requires: made by Reserve, bytes >= 0.
  absl::Status Grow(int64_t bytes);
  // Releases all except `bytes_kept`; releases nothing if it holds less.
  void ShrinkTo(int64_t bytes_kept);

 private:
  friend class HostBudget;
  HostReservation(std::shared_ptr<HostBudget> budget, int64_t bytes);

  std::shared_ptr<HostBudget> budget_;
  int64_t bytes_ = 0;
};

// Thread-safe. Held by a shared pointer, because reservations outlive the engine if results or
// collections do.
class HostBudget : public std::enable_shared_from_this<HostBudget> {
 public:
  static std::shared_ptr<HostBudget> Make(int64_t bytes_total);

  // Reserves `bytes`. Errors: ResourceExhausted (reports needed, free and total bytes). Requires:
  // bytes >= 0.
  absl::StatusOr<HostReservation> Reserve(int64_t bytes);

  int64_t bytes_total() const { return bytes_total_; }
  int64_t bytes_used() const;

 private:
  friend class HostReservation;
  explicit HostBudget(int64_t bytes_total) : bytes_total_(bytes_total) {}
  void Release(int64_t bytes);

  const int64_t bytes_total_;
  mutable Mutex mutex_;
  int64_t bytes_used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace nearfield::corpus

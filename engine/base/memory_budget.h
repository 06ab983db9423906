// MemoryBudget: accounts for memory of one purpose, so that an upload that cannot fit is refused
// before its first row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"

namespace nearfield {

class MemoryBudget;

// A reserved part of the budget. The destructor releases it. Movable; not thread-safe.
class MemoryReservation {
 public:
  MemoryReservation() = default;
  MemoryReservation(MemoryReservation&& other) noexcept;
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  ~MemoryReservation();

  int64_t bytes() const { return bytes_; }
  // Reserves more. Errors: as MemoryBudget::Reserve. Requires: made by Reserve, bytes >= 0.
  absl::Status Grow(int64_t bytes);
  // Releases all except `bytes_kept`; releases nothing if it holds less.
  void ShrinkTo(int64_t bytes_kept);

 private:
  friend class MemoryBudget;
  MemoryReservation(std::shared_ptr<MemoryBudget> budget, int64_t bytes);

  std::shared_ptr<MemoryBudget> budget_;
  int64_t bytes_ = 0;
};

// Thread-safe. Held by a shared pointer, because reservations outlive the engine if results or
// collections do.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // memory: its name in messages, for example "row memory".
  static std::shared_ptr<MemoryBudget> Make(int64_t bytes_total, std::string memory);

  // Reserves `bytes`. Errors: ResourceExhausted (reports needed, free and total bytes). Requires:
  // bytes >= 0.
  absl::StatusOr<MemoryReservation> Reserve(int64_t bytes);

  int64_t bytes_total() const { return bytes_total_; }
  int64_t bytes_used() const;

 private:
  friend class MemoryReservation;
  MemoryBudget(int64_t bytes_total, std::string memory)
      : bytes_total_(bytes_total), memory_(std::move(memory)) {}
  void Release(int64_t bytes);

  const int64_t bytes_total_;
  const std::string memory_;
  mutable Mutex mutex_;
  int64_t bytes_used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace nearfield

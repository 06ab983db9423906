#include "engine/base/memory_budget.h"

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield {

MemoryReservation::MemoryReservation(std::shared_ptr<MemoryBudget> budget, int64_t bytes)
    : budget_(std::move(budget)), bytes_(bytes) {}

MemoryReservation::MemoryReservation(MemoryReservation&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryReservation& MemoryReservation::operator=(MemoryReservation&& other) noexcept {
  if (this != &other) {
    ShrinkTo(0);
    budget_ = std::move(other.budget_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

MemoryReservation::~MemoryReservation() { ShrinkTo(0); }

absl::Status MemoryReservation::Grow(int64_t bytes) {
  ABSL_ASSIGN_OR_RETURN(MemoryReservation more, budget_->Reserve(bytes));
  bytes_ += std::exchange(more.bytes_, 0);
  return absl::OkStatus();
}

void MemoryReservation::ShrinkTo(int64_t bytes_kept) {
  if (bytes_kept >= bytes_) return;
  budget_->Release(bytes_ - bytes_kept);
  bytes_ = bytes_kept;
}

std::shared_ptr<MemoryBudget> MemoryBudget::Make(int64_t bytes_total, std::string memory) {
  return std::shared_ptr<MemoryBudget>(new MemoryBudget(bytes_total, std::move(memory)));
}

absl::StatusOr<MemoryReservation> MemoryBudget::Reserve(int64_t bytes) {
  CHECK_GE(bytes, 0);
  {
    const MutexLock lock(mutex_);
    const int64_t bytes_free = bytes_total_ - bytes_used_;
    if (bytes > bytes_free) {
      return absl::ResourceExhaustedError(absl::StrCat("needs ", bytes, " bytes of ", memory_, "; ",
                                                       bytes_free, " of ", bytes_total_,
                                                       " bytes are free"));
    }
    bytes_used_ += bytes;
  }
  return MemoryReservation(shared_from_this(), bytes);
}

int64_t MemoryBudget::bytes_used() const {
  const MutexLock lock(mutex_);
  return bytes_used_;
}

void MemoryBudget::Release(int64_t bytes) {
  const MutexLock lock(mutex_);
  CHECK_LE(bytes, bytes_used_);
  bytes_used_ -= bytes;
}

}  // namespace nearfield

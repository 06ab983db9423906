#include "engine/corpus/host_budget.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::corpus {

HostReservation::HostReservation(std::shared_ptr<HostBudget> budget, int64_t bytes)
    : budget_(std::move(budget)), bytes_(bytes) {}

HostReservation::HostReservation(HostReservation&& other) noexcept
    : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

HostReservation& HostReservation::operator=(HostReservation&& other) noexcept {
  if (this != &other) {
    ShrinkTo(0);
    budget_ = std::move(other.budget_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

HostReservation::~HostReservation() { ShrinkTo(0); }

absl::Status HostReservation::Grow(int64_t bytes) {
  ABSL_ASSIGN_OR_RETURN(HostReservation more, budget_->Reserve(bytes));
  bytes_ += std::exchange(more.bytes_, 0);
  return absl::OkStatus();
}

void HostReservation::ShrinkTo(int64_t bytes_kept) {
  if (bytes_kept >= bytes_) return;
  budget_->Release(bytes_ - bytes_kept);
  bytes_ = bytes_kept;
}

std::shared_ptr<HostBudget> HostBudget::Make(int64_t bytes_total) {
  return std::shared_ptr<HostBudget>(new HostBudget(bytes_total));
}

absl::StatusOr<HostReservation> HostBudget::Reserve(int64_t bytes) {
  CHECK_GE(bytes, 0);
  {
    const MutexLock lock(mutex_);
    const int64_t bytes_free = bytes_total_ - bytes_used_;
    if (bytes > bytes_free) {
      return absl::ResourceExhaustedError(
          absl::StrCat("needs ", bytes, " bytes of host memory for ids and payloads; ", bytes_free,
                       " of ", bytes_total_, " bytes are free"));
    }
    bytes_used_ += bytes;
  }
  return HostReservation(shared_from_this(), bytes);
}

int64_t HostBudget::bytes_used() const {
  const MutexLock lock(mutex_);
  return bytes_used_;
}

void HostBudget::Release(int64_t bytes) {
  const MutexLock lock(mutex_);
  CHECK_LE(bytes, bytes_used_);
  bytes_used_ -= bytes;
}

}  // namespace nearfield::corpus

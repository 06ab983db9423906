#include "server/scheduler/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr int64_t kBytesRetryMs = 500;
// 1 / kSmallPart of an account is reserved for holds of at most kSmallHoldBytesMax.
constexpr int64_t kSmallPart = 16;
constexpr int64_t kSmallHoldBytesMax = 64 * 1024;

}  // namespace

double TimesFree(double caller_share) { return caller_share / std::max(1 - caller_share, 1e-9); }

ByteAccount::Hold::Hold(Hold&& other) noexcept { *this = std::move(other); }

ByteAccount::Hold& ByteAccount::Hold::operator=(Hold&& other) noexcept {
  std::swap(account_, other.account_);
  std::swap(caller_, other.caller_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ByteAccount::Hold::~Hold() { Resize(0); }

absl::Status ByteAccount::Hold::Grow(int64_t bytes) {
  if (account_ == nullptr || bytes <= bytes_) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(account_->TryAdd(caller_, bytes_, bytes));
  bytes_ = bytes;
  return absl::OkStatus();
}

void ByteAccount::Hold::Resize(int64_t bytes) {
  if (account_ == nullptr || bytes == bytes_) return;
  account_->Add(caller_, bytes - bytes_);
  bytes_ = bytes;
}

ByteAccount::ByteAccount(Options options)
    : options_(std::move(options)), times_free_(TimesFree(options_.caller_share)) {}

ByteAccount::~ByteAccount() { DCHECK_EQ(bytes(), 0); }

absl::StatusOr<ByteAccount::Hold> ByteAccount::Reserve(const std::string& caller, int64_t bytes) {
  Hold hold;
  hold.caller_ = caller;
  ABSL_RETURN_IF_ERROR(TryAdd(caller, 0, bytes));
  hold.account_ = this;
  hold.bytes_ = bytes;
  return hold;
}

absl::Status ByteAccount::TryAdd(const std::string& caller, int64_t bytes_before,
                                 int64_t bytes_after) {
  const int64_t bytes = (bytes_after - bytes_before) * options_.copies;
  const MutexLock lock(mutex_);
  const auto it = callers_.find(caller);
  const int64_t own = it == callers_.end() ? 0 : it->second;
  const int64_t free = options_.bytes_max - this->bytes() - bytes;  // after this hold
  const bool alone = this->bytes() == own;
  const bool small = bytes_after <= kSmallHoldBytesMax;
  // A caller's first hold may be large. If other callers hold bytes, it may take at most half of
  // what is free: callers choose their own names, and one with many names must not take everything.
  const bool fair =
      own == 0 ? alone || small || bytes <= free
               : static_cast<double>(own + bytes) <= times_free_ * static_cast<double>(free);
  const int64_t kept_free = alone || small ? 0 : options_.bytes_max / kSmallPart;
  if (free < kept_free || !fair) return Full(bytes, own);
  AddLocked(caller, bytes);
  return absl::OkStatus();
}

absl::Status ByteAccount::Full(int64_t bytes, int64_t own) const {
  return WithReason(
      ExhaustedFor(kBytesRetryMs, "too many bytes of ", options_.what, ": ", bytes,
                   " more are needed, ", own, " are held for this caller, ", this->bytes(),
                   " in all, the limit ", options_.setting, " is ", options_.bytes_max,
                   " and less for one caller or a large message: ", options_.advice,
                   ", then ask again"),
      options_.setting);
}

void ByteAccount::Add(const std::string& caller, int64_t held_bytes) {
  const MutexLock lock(mutex_);
  AddLocked(caller, held_bytes * options_.copies);
}

void ByteAccount::AddLocked(const std::string& caller, int64_t bytes) {
  if (bytes == 0) return;
  const auto it = callers_.try_emplace(caller, 0).first;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  it->second += bytes;
  CHECK_GE(it->second, 0);
  CHECK_GE(this->bytes(), it->second);
  if (it->second == 0) callers_.erase(it);
}

MemoryLedger::MemoryLedger(const Limits& limits)
    : replies({.setting = "replies_bytes_max",
               .what = "replies that wait to be read",
               .advice = "read the replies",
               .bytes_max = limits.replies_bytes_max,
               .copies = limits.reply_copies,
               .caller_share = limits.caller_share}),
      requests({.setting = "requests_bytes_max",
                .what = "requests in flight",
                .advice = "wait for their answers",
                .bytes_max = limits.requests_bytes_max,
                .caller_share = limits.caller_share}) {}

}  // namespace nearfield::server

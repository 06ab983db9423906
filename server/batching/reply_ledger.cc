#include "server/batching/reply_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/retry_hint.h"

namespace nearfield::server {
namespace {

constexpr int64_t kRetryMs = 500;

}  // namespace

double TimesFree(double caller_share) { return caller_share / std::max(1 - caller_share, 1e-9); }

ReplyLedger::Hold::Hold(Hold&& other) noexcept { *this = std::move(other); }

ReplyLedger::Hold& ReplyLedger::Hold::operator=(Hold&& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(caller_, other.caller_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ReplyLedger::Hold::~Hold() { Resize(0); }

void ReplyLedger::Hold::Resize(int64_t bytes) {
  if (ledger_ == nullptr || bytes == bytes_) return;
  ledger_->Add(caller_, bytes - bytes_);
  bytes_ = bytes;
}

ReplyLedger::ReplyLedger(int64_t bytes_max, double caller_share)
    : bytes_max_(bytes_max),
      times_free_(TimesFree(caller_share)),
      // Even if all of it is one caller's.
      roomy_bytes_(
          static_cast<int64_t>(static_cast<double>(bytes_max) * std::min(caller_share, 1 - 1e-9))) {
}

absl::Status ReplyLedger::Check(const std::string& caller) const {
  if (HasRoomForAll()) return absl::OkStatus();
  int64_t own = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = callers_.find(caller);
    if (it != callers_.end()) own = it->second;
  }
  const int64_t all = bytes();
  const auto free = static_cast<double>(bytes_max_ - all);
  if (all < bytes_max_ && static_cast<double>(own) <= times_free_ * free) return absl::OkStatus();
  return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                            "too many bytes of replies wait to be read: ", own, " of this caller, ",
                            all, " in all, the limit replies_bytes_max is ", bytes_max_,
                            ": read the replies, then ask again")),
                        kRetryMs);
}

ReplyLedger::Hold ReplyLedger::Take(const std::string& caller, int64_t bytes) {
  Hold hold;
  hold.ledger_ = this;
  hold.caller_ = caller;
  hold.Resize(bytes);
  return hold;
}

void ReplyLedger::Add(const std::string& caller, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  const auto it = callers_.try_emplace(caller, 0).first;
  it->second += bytes;
  if (it->second == 0) callers_.erase(it);
}

}  // namespace nearfield::server

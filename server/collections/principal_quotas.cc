#include "server/collections/principal_quotas.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

// Returns the field of the request that asks for more.
const char* FieldOf(Quota quota, const QuotaFields& fields) {
  switch (quota) {
    case Quota::kDeviceBytes: return fields.device;
    case Quota::kHostBytes: return fields.host;
    case Quota::kAttributeBytes: return fields.attributes;
    case Quota::kDiskBytes: return fields.disk;
    case Quota::kCollections: return "name";
    case Quota::kAliases: return "alias";
    case Quota::kSnapshots: return "name";
  }
  return "";
}

const QuotaKind& KindOf(Quota quota) { return kQuotaKinds[static_cast<size_t>(quota)]; }

}  // namespace

absl::Status QuotaExceeded(const std::string& owner, Quota quota, int64_t amount, int64_t used,
                           int64_t amount_max, const QuotaFields& fields) {
  const QuotaKind& kind = KindOf(quota);
  const std::string setting = absl::StrCat("principal_", std::string(kind.name));
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        FieldOf(quota, fields), ": ", amount, " ", std::string(kind.unit),
                        " more for the principal ", owner, ", which holds ", used, " of at most ",
                        amount_max, " (", setting, "): free some first")),
                    setting);
}

PrincipalQuotas::Hold& PrincipalQuotas::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  quotas_ = std::exchange(other.quotas_, nullptr);
  owner_ = std::move(other.owner_);
  amounts_ = std::exchange(other.amounts_, {});
  return *this;
}

void PrincipalQuotas::Hold::Release() {
  PrincipalQuotas* const quotas = std::exchange(quotas_, nullptr);
  if (quotas == nullptr) return;
  const MutexLock lock(quotas->mutex_);
  const auto account = quotas->accounts_.find(owner_);
  CHECK(account != quotas->accounts_.end());
  for (const QuotaKind& kind : kQuotaKinds) {
    account->second.held[kind.quota] -= amounts_[kind.quota];
    CHECK_GE(account->second.held[kind.quota], 0);
  }
  --account->second.holds_count;
}

absl::Status PrincipalQuotas::Hold::RaiseTo(Quota quota, int64_t amount) {
  const int64_t more = amount - amounts_[quota];
  if (quotas_ == nullptr || more <= 0) return absl::OkStatus();
  const MutexLock lock(quotas_->mutex_);
  ABSL_RETURN_IF_ERROR(quotas_->Check(owner_, quota, more));
  quotas_->accounts_[owner_].held[quota] += more;
  amounts_[quota] = amount;
  return absl::OkStatus();
}

void PrincipalQuotas::SetLimits(Limits limits) {
  const MutexLock lock(mutex_);
  limits_ = std::move(limits);
}

int64_t PrincipalQuotas::LimitLocked(const std::string& owner, Quota quota) const {
  const auto own = limits_.own.find(owner);
  const int64_t limit = own != limits_.own.end() ? own->second[quota] : 0;
  return limit > 0 ? limit : limits_.defaults[quota];
}

int64_t PrincipalQuotas::LimitOf(const std::string& owner, Quota quota) {
  const MutexLock lock(mutex_);
  return LimitLocked(owner, quota);
}

void PrincipalQuotas::Add(const std::string& owner, Usage usage) {
  const MutexLock lock(mutex_);
  Account& account = accounts_[owner];
  UsedBy(&account, Quota::kCollections);  // so that the list grows with the collections that exist
  account.collections.push_back(std::move(usage));
}

int64_t PrincipalQuotas::UsedBy(Account* account, Quota quota) {
  int64_t used = account->held[quota];
  std::erase_if(account->collections, [&used, quota](const Usage& usage) {
    const std::optional<int64_t> amount = usage(quota);
    used += amount.value_or(0);
    return !amount.has_value();
  });
  return used;
}

absl::Status PrincipalQuotas::Check(const std::string& owner, Quota quota, int64_t amount,
                                    const QuotaFields& fields) {
  const int64_t amount_max = LimitLocked(owner, quota);
  if (amount == 0 || amount_max == 0) return absl::OkStatus();
  const int64_t used = UsedBy(&accounts_[owner], quota);
  if (amount <= amount_max - used) return absl::OkStatus();
  return QuotaExceeded(owner, quota, amount, used, amount_max, fields);
}

PrincipalQuotas::Hold PrincipalQuotas::Take(const std::string& owner, const QuotaAmounts& amounts) {
  Hold hold;
  hold.owner_ = owner;
  Account& account = accounts_[owner];
  // Nothing can fail from here: a hold that is complete locks the mutex to release itself.
  for (const QuotaKind& kind : kQuotaKinds) {
    CHECK_GE(amounts[kind.quota], 0);
    account.held[kind.quota] += amounts[kind.quota];
  }
  ++account.holds_count;  // an account with a hold exists until its release
  hold.quotas_ = this;
  hold.amounts_ = amounts;
  return hold;
}

absl::StatusOr<PrincipalQuotas::Hold> PrincipalQuotas::Reserve(const std::string& owner,
                                                               const QuotaAmounts& amounts,
                                                               const QuotaFields& fields) {
  const MutexLock lock(mutex_);
  for (const QuotaKind& kind : kQuotaKinds) {
    ABSL_RETURN_IF_ERROR(Check(owner, kind.quota, amounts[kind.quota], fields));
  }
  return Take(owner, amounts);
}

PrincipalQuotas::Hold PrincipalQuotas::Note(const std::string& owner, const QuotaAmounts& amounts) {
  const MutexLock lock(mutex_);
  return Take(owner, amounts);
}

std::vector<PrincipalQuotas::Use> PrincipalQuotas::Uses() {
  const MutexLock lock(mutex_);
  std::map<std::string, QuotaAmounts> used;
  for (const auto& [principal, limits] : limits_.own) used[principal] = {};
  for (auto it = accounts_.begin(); it != accounts_.end();) {
    QuotaAmounts amounts;
    for (const QuotaKind& kind : kQuotaKinds) amounts[kind.quota] = UsedBy(&it->second, kind.quota);
    const bool is_gone = it->second.collections.empty() && it->second.holds_count == 0;
    if (!is_gone) used[it->first] = amounts;
    it = is_gone ? accounts_.erase(it) : std::next(it);
  }
  std::vector<Use> uses;
  uses.reserve(used.size());
  for (const auto& [principal, amounts] : used) {
    uses.push_back({.principal = principal, .used = amounts, .max = {}});
    for (const QuotaKind& kind : kQuotaKinds) {
      uses.back().max[kind.quota] = LimitLocked(principal, kind.quota);
    }
  }
  return uses;
}

}  // namespace nearfield::server

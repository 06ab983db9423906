#include "server/collections/device_quotas.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {

DeviceQuotas::Hold& DeviceQuotas::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  quotas_ = std::exchange(other.quotas_, nullptr);
  owner_ = std::move(other.owner_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DeviceQuotas::Hold::Release() {
  DeviceQuotas* const quotas = std::exchange(quotas_, nullptr);
  if (quotas == nullptr) return;
  const MutexLock lock(quotas->mutex_);
  const auto account = quotas->accounts_.find(owner_);
  CHECK(account != quotas->accounts_.end());
  account->second.bytes_reserved -= bytes_;
  CHECK_GE(account->second.bytes_reserved, 0);
}

void DeviceQuotas::SetLimits(Limits limits) {
  const MutexLock lock(mutex_);
  limits_ = std::move(limits);
}

void DeviceQuotas::Add(const std::string& owner,
                       const std::shared_ptr<const Collection>& collection) {
  const MutexLock lock(mutex_);
  Account& account = accounts_[owner];
  BytesOf(&account);  // so that the list grows with the collections that exist
  account.collections.emplace_back(collection);
}

int64_t DeviceQuotas::LimitOf(const std::string& owner) const {
  const auto own = limits_.bytes_max.find(owner);
  return own != limits_.bytes_max.end() ? own->second : limits_.bytes_max_default;
}

int64_t DeviceQuotas::BytesOf(Account* account) {
  int64_t bytes = account->bytes_reserved;
  std::erase_if(account->collections, [&bytes](const std::weak_ptr<const Collection>& weak) {
    const std::shared_ptr<const Collection> collection = weak.lock();
    if (collection != nullptr) bytes += collection->Stats().device_bytes;
    return collection == nullptr;
  });
  return bytes;
}

absl::StatusOr<DeviceQuotas::Hold> DeviceQuotas::Reserve(const std::string& owner, int64_t bytes) {
  CHECK_GE(bytes, 1);  // an account with a hold exists until its release
  const MutexLock lock(mutex_);
  Account& account = accounts_[owner];
  if (const int64_t bytes_max = LimitOf(owner); bytes_max > 0) {
    const int64_t used = BytesOf(&account);
    if (bytes > bytes_max - used) {
      return WithReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "begin.rows_max: the upload takes ", bytes, " bytes of device memory; the principal ",
              owner, ", which owns the collection, holds ", used, " of at most ", bytes_max,
              " (principal_device_bytes): drop or compact collections")),
          "principal_device_bytes");
    }
  }
  Hold hold;
  hold.owner_ = owner;
  hold.bytes_ = bytes;
  hold.quotas_ = this;
  account.bytes_reserved += bytes;
  return hold;
}

std::vector<DeviceQuotas::Use> DeviceQuotas::Uses() {
  const MutexLock lock(mutex_);
  std::map<std::string, int64_t> bytes;
  for (const auto& [principal, bytes_max] : limits_.bytes_max) bytes[principal] = 0;
  for (auto it = accounts_.begin(); it != accounts_.end();) {
    const int64_t used = BytesOf(&it->second);
    const bool is_gone = it->second.collections.empty() && it->second.bytes_reserved == 0;
    if (!is_gone) bytes[it->first] = used;
    it = is_gone ? accounts_.erase(it) : std::next(it);
  }
  std::vector<Use> uses;
  uses.reserve(bytes.size());
  for (const auto& [principal, used] : bytes) {
    uses.push_back({.principal = principal, .bytes = used, .bytes_max = LimitOf(principal)});
  }
  return uses;
}

}  // namespace nearfield::server

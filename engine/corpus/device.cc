#include "engine/corpus/device.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace nearfield::corpus {

Device::Device(std::unique_ptr<Backend> backend, int64_t host_bytes_total)
    : backend_(std::move(backend)), host_(HostBudget::Make(host_bytes_total)) {}

absl::Status Device::Check() const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!lost_.ok()) return lost_;
  }
  return Observe(backend_->Health());
}

absl::Status Device::Observe(absl::Status status) const {
  if (!absl::IsUnavailable(status)) return status;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lost_.ok()) lost_ = status;
  return status;
}

}  // namespace nearfield::corpus

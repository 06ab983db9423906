#include "engine/corpus/device.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace nearfield::corpus {
namespace {

int32_t HostThreads() {
  return std::clamp(static_cast<int32_t>(std::thread::hardware_concurrency()), 1, kHostThreadsMax);
}

}  // namespace

Device::Device(std::unique_ptr<backend::Backend> backend, int64_t host_bytes_total)
    : backend_(std::move(backend)),
      host_(MemoryBudget::Make(host_bytes_total, "host memory for ids and payloads")),
      host_work_(std::make_unique<HostWork>(HostThreads())) {}

absl::Status Device::Check() const {
  {
    const MutexLock lock(mutex_);
    if (!lost_.ok()) return lost_;
  }
  return Observe(backend_->Health());
}

absl::Status Device::Observe(absl::Status status) const {
  if (!absl::IsUnavailable(status)) return status;
  const MutexLock lock(mutex_);
  if (lost_.ok()) lost_ = status;
  return status;
}

}  // namespace nearfield::corpus

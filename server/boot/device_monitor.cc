#include "server/boot/device_monitor.h"

#include <chrono>
#include <utility>

namespace nearfield::server {
namespace {

constexpr std::chrono::milliseconds kInterval{1000};

}  // namespace

DeviceMonitor::DeviceMonitor(const Engine* engine, std::function<void(const absl::Status&)> on_lost)
    : engine_(engine), on_lost_(std::move(on_lost)), thread_([this] { Loop(); }) {}

DeviceMonitor::~DeviceMonitor() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

void DeviceMonitor::LookNow() {
  {
    const MutexLock lock(mutex_);
    look_ = true;
  }
  wake_.NotifyAll();
}

void DeviceMonitor::Loop() {
  while (true) {
    {
      MutexLock lock(mutex_);
      const auto look_at = std::chrono::steady_clock::now() + kInterval;
      while (!look_ && !stop_ && wake_.WaitUntil(lock, look_at)) {
      }
      if (stop_) return;
      look_ = false;
    }
    const absl::Status health = engine_->Health();
    if (!health.ok()) return on_lost_(health);
  }
}

}  // namespace nearfield::server

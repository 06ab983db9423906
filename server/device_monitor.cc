#include "server/device_monitor.h"

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
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void DeviceMonitor::LookNow() {
  {
    const std::lock_guard lock(mutex_);
    look_ = true;
  }
  wake_.notify_all();
}

void DeviceMonitor::Loop() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kInterval, [&] { return look_ || stop_; });
      if (stop_) return;
      look_ = false;
    }
    const absl::Status health = engine_->Health();
    if (!health.ok()) return on_lost_(health);
  }
}

}  // namespace nearfield::server

// DeviceMonitor: checks the health of the device once a second, and immediately on LookNow(), when
// a call has reason to suspect the device.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/engine.h"

namespace nearfield::server {

class DeviceMonitor {
 public:
  // `on_lost` is called once, on the monitor's thread. `engine` outlives the monitor.
  DeviceMonitor(const Engine* engine, std::function<void(const absl::Status&)> on_lost);
  ~DeviceMonitor();

  void LookNow();

 private:
  void Loop();

  const Engine* const engine_;
  std::function<void(const absl::Status&)> on_lost_;
  Mutex mutex_;
  CondVar wake_;
  bool look_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nearfield::server

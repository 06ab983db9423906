#include "server/boot/instance.h"

#include <utility>

namespace nearfield::server {

Instance::Instance(InstanceBase base)
    : base_(std::move(base)),
      settings_(base_.settings),
      log_(base_.log),
      clock_(base_.clock),
      state_(settings_, log_, clock_),
      service_(&state_, [this] { base_.health->Refresh(); }) {}

void Instance::WatchDevice(std::function<void(const absl::Status&)> on_lost) {
  monitor_ = std::make_shared<DeviceMonitor>(
      state_.core()->engine.get(),
      [log = log_, on_lost = std::move(on_lost)](const absl::Status& why) {
        log->Write(LogLevel::kError, "the device is lost", {{"error", why.ToString()}});
        on_lost(why);
      });
  state_.SetSuspicionListener([weak = std::weak_ptr(monitor_)] {
    if (const auto held = weak.lock(); held != nullptr) held->LookNow();
  });
}

void Instance::StopWatching() {
  state_.SetSuspicionListener(nullptr);
  monitor_ = nullptr;
}

bool Instance::DeviceLost() {
  const Core* core = state_.core();
  if (core == nullptr) return false;
  const absl::Status health = core->engine->Health();
  if (health.ok()) return false;
  log_->Write(LogLevel::kError, "the device is lost", {{"error", health.ToString()}});
  return true;
}

void Instance::NoteExpired(const std::string& collection, const absl::StatusOr<int64_t>& rows) {
  RequestRecord record;
  record.method = "Expire";
  record.collection = collection;
  record.rows = rows.value_or(0);
  state_.call_counter().Record(record, rows.status());
  if (rows.ok()) {
    log_->Write(LogLevel::kInfo, "rows expired", {{"collection", collection}, {"rows", *rows}});
  } else {
    log_->Write(LogLevel::kWarning, "expired rows could not be deleted",
                {{"collection", collection}, {"error", rows.status().ToString()}});
  }
}

}  // namespace nearfield::server

// DeviceSet: the backends that a MultiBackend joins, one for each device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"

namespace nearfield::multi {

struct NamedBackend {
  std::string name;  // for messages: "GPU 1"
  std::unique_ptr<backend::Backend> backend;
};

// Held by everything that is on the devices, which may outlive the engine.
class DeviceSet {
 public:
  explicit DeviceSet(std::vector<NamedBackend> devices) : devices_(std::move(devices)) {}

  size_t size() const { return devices_.size(); }
  backend::Backend& backend(size_t device) const { return *devices_[device].backend; }
  const std::string& name(size_t device) const { return devices_[device].name; }
  int64_t FreeBytes(size_t device) const;

  // Returns `status` with the name of the device before its message.
  absl::Status Named(size_t device, const absl::Status& status) const;

 private:
  const std::vector<NamedBackend> devices_;
};

}  // namespace nearfield::multi

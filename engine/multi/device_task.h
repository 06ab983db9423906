// DeviceTask: the part of a search on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/multi/merge_devices.h"

namespace nearfield::multi {

struct DeviceTask {
  size_t device = 0;
  std::vector<backend::GenerationView> views;
  std::vector<std::vector<uint32_t>> live_slots;  // by view; views refer to them
  DeviceLists found;                              // its generations are those of views
  backend::ScanCost cost;
  absl::Status status;
};

// Adds the part of a generation on the device to its search, if there is a live row.
void AddView(const backend::GenerationView& view, size_t generation, DeviceTask* task);

}  // namespace nearfield::multi

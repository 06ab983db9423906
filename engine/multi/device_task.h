// DeviceTask: the part of a search on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/backend/query_views.h"
#include "engine/multi/merge_devices.h"

namespace nearfield::multi {

struct DeviceTask {
  size_t device = 0;
  std::vector<backend::GenerationView> views;
  // As QueryTile::views, and the memory of those that differ from `views`.
  std::vector<backend::Views> views_of_queries;
  std::vector<std::vector<backend::GenerationView>> own_views;
  std::vector<std::vector<uint32_t>> live_slots;  // that all these views refer to
  DeviceLists found;                              // its generations are those of views
  backend::ScanCost cost;
  absl::Status status;
};

// Adds the part of a generation on the device to its search, if there is a live row.
void AddView(const backend::GenerationView& view, size_t generation, DeviceTask* task);
// Adds what each query of the tile sees of these generations on the device. Requires: all views are
// added.
void AddViewsOfQueries(backend::Views generations, const backend::QueryTile& tile,
                       DeviceTask* task);

}  // namespace nearfield::multi

#include "engine/multi/device_task.h"

#include "engine/multi/multi_row_planes.h"
#include "engine/multi/multi_tombstones.h"

namespace nearfield::multi {
namespace {

using backend::GenerationView;

const MultiRowPlanes& PlanesOf(const GenerationView& view) {
  return *dynamic_cast<const MultiRowPlanes*>(view.planes);
}

// Returns the live rows of the view on a device.
int64_t RowsLive(const GenerationView& view, const MultiTombstones* tombstones, size_t device) {
  return tombstones != nullptr ? tombstones->part(device).rows_live
                               : PlanesOf(view).placement().rows_of(device);
}

// Returns the slots of the view's live rows on a device, in the numbering of the device.
std::vector<uint32_t> LocalSlots(const GenerationView& view, size_t device) {
  std::vector<uint32_t> locals;
  for (const uint32_t slot : view.live_slots) {
    const Place place = PlanesOf(view).placement().Of(slot);
    if (place.device == device) locals.push_back(place.local);
  }
  return locals;
}

}  // namespace

void AddView(const GenerationView& view, size_t generation, DeviceTask* task) {
  const auto* const tombstones = dynamic_cast<const MultiTombstones*>(view.tombstones);
  const size_t device = task->device;
  const int64_t rows_live = RowsLive(view, tombstones, device);
  if (view.rows_live == 0 || rows_live == 0) return;
  const PlanesPart& part = PlanesOf(view).part(device);
  task->views.push_back(
      {.planes = part.planes.get(),
       .tombstones = tombstones == nullptr ? nullptr : tombstones->part(device).tombstones.get(),
       .rows_live = rows_live});
  task->found.generations.push_back(generation);
  task->found.ranks.emplace_back(part.ranks);
  task->live_slots.push_back(LocalSlots(view, device));
}

}  // namespace nearfield::multi

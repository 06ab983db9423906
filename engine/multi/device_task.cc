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
  if (view.rows_live == 0) return 0;
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

// Returns the part of a generation on the device of the task, which keeps its live slots.
GenerationView PartOf(const GenerationView& view, DeviceTask* task) {
  const auto* const tombstones = dynamic_cast<const MultiTombstones*>(view.tombstones);
  const size_t device = task->device;
  return {.planes = PlanesOf(view).part(device).planes.get(),
          .tombstones = tombstones == nullptr ? nullptr : tombstones->part(device).tombstones.get(),
          .rows_live = RowsLive(view, tombstones, device),
          .live_slots = task->live_slots.emplace_back(LocalSlots(view, device))};
}

}  // namespace

void AddView(const GenerationView& view, size_t generation, DeviceTask* task) {
  const GenerationView part = PartOf(view, task);
  if (part.rows_live == 0) return;
  task->views.push_back(part);
  task->found.generations.push_back(generation);
  task->found.ranks.emplace_back(PlanesOf(view).part(task->device).ranks);
}

void AddViewsOfQueries(backend::Views generations, const backend::QueryTile& tile,
                       DeviceTask* task) {
  if (tile.views.empty()) return;
  task->views_of_queries.resize(tile.k.size());
  for (const backend::ViewGroup& group : backend::GroupByViews(generations, tile)) {
    backend::Views views = task->views;
    if (group.views.data() != generations.data()) {
      std::vector<GenerationView>& parts = task->own_views.emplace_back();
      for (const size_t g : task->found.generations) parts.push_back(PartOf(group.views[g], task));
      views = parts;
    }
    for (const int64_t query : group.queries) {
      task->views_of_queries[static_cast<size_t>(query)] = views;
    }
  }
}

}  // namespace nearfield::multi

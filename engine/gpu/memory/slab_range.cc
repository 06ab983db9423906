#include "engine/gpu/memory/slab_range.h"

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {

absl::Status SlabRange::Take(int64_t bytes) {
  Arena& arena = core_->arena();
  // The table of the slabs comes first, 8 bytes per slab. It needs at most one slab more itself.
  offset_ = 8 * (CeilDiv(bytes, arena.slab_bytes()) + 1);
  ABSL_ASSIGN_OR_RETURN(slabs_, arena.TakeSlabs(CeilDiv(offset_ + bytes, arena.slab_bytes())));
  view_ = {.slabs = reinterpret_cast<char* const*>(slabs_.front()),
           .slab_shift = arena.slab_shift()};
  return core_->WriteExtent({.slabs = &slabs_, .offset = 0}, slabs_.data(),
                            static_cast<int64_t>(slabs_.size() * sizeof(char*)));
}

absl::Status SlabRange::Write(int64_t at, const void* data, int64_t bytes) {
  return core_->WriteExtent({.slabs = &slabs_, .offset = offset_ + at}, data, bytes);
}

}  // namespace nearfield::gpu

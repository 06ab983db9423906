#include "engine/corpus/device_ids.h"

#include <cstddef>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/generation.h"

namespace nearfield::corpus {

absl::StatusOr<const backend::DeviceIds*> DeviceIdsOnce::Get(const Generation& generation) {
  const MutexLock lock(mutex_);
  if (ids_ != nullptr) return ids_.get();
  const auto fill = [&generation](int64_t begin, absl::Span<uint64_t> ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint32_t slot = generation.slot_by_rank[static_cast<size_t>(begin) + i];
      ids[i] = generation.ids.number(slot);
    }
  };
  ABSL_ASSIGN_OR_RETURN(ids_,
                        generation.device->backend().MakeDeviceIds(generation.rows_count(), fill));
  device_bytes_.store(ids_->device_bytes(), std::memory_order_relaxed);
  return ids_.get();
}

}  // namespace nearfield::corpus

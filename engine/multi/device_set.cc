#include "engine/multi/device_set.h"

#include "absl/strings/str_cat.h"

namespace nearfield::multi {

int64_t DeviceSet::FreeBytes(size_t device) const {
  return backend(device).device_bytes_total() - backend(device).device_bytes_used();
}

absl::Status DeviceSet::Named(size_t device, const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(name(device), ": ", status.message()));
}

}  // namespace nearfield::multi

// MultiRowPlanes: the planes of a generation whose rows are spread over several devices.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/multi/device_set.h"
#include "engine/multi/placement.h"

namespace nearfield::multi {

// The part of a generation on one device.
struct PlanesPart {
  std::unique_ptr<backend::RowPlanes> planes;  // null: no row of the generation is there
  int64_t rows_max = 0;                        // reserved
  // By rank among the rows of this device: the rank in the generation. Ascending. Empty if all rows
  // of the generation are here: both ranks are the same then.
  std::vector<uint32_t> ranks;
};

// Rows that are appended go to the devices in turn, `stripe_rows` at a time. Rows that are copied
// from another generation stay on their device while the reservation there has room.
class MultiRowPlanes : public backend::RowPlanes {
 public:
  // parts: one per device. Together they have room for all rows.
  MultiRowPlanes(std::shared_ptr<const DeviceSet> devices, const backend::RowFormat& format,
                 int64_t stripe_rows, std::vector<PlanesPart> parts);

  absl::Status Append(const void* rows, int64_t rows_count) override;
  absl::Status AppendFrom(const backend::RowPlanes& source,
                          absl::Span<const uint32_t> slots) override;
  absl::Status Seal(const backend::SealedOrder& order) override;
  absl::Status Read(absl::Span<const uint32_t> slots, void* rows) const override;
  absl::Status ReadRange(int64_t begin, int64_t rows_count, void* rows) const override;
  int64_t rows_count() const override { return placement_.rows_count(); }
  int64_t device_bytes() const override;
  int64_t host_bytes() const override;

  const DeviceSet* devices() const { return devices_.get(); }
  const Placement& placement() const { return placement_; }
  const PlanesPart& part(size_t device) const { return parts_[device]; }

 private:
  int64_t RoomOf(size_t device) const;
  // Returns the device for the next rows of an upload.
  size_t NextDevice() const;
  absl::Status AppendTo(size_t device, const char* rows, int64_t rows_count);
  // Appends rows of one device of `source`, in parts that stay there, or else move.
  absl::Status CopyRun(const MultiRowPlanes& source, size_t device,
                       absl::Span<const uint32_t> locals);
  absl::Status Move(const MultiRowPlanes& source, size_t device, absl::Span<const uint32_t> locals);

  const std::shared_ptr<const DeviceSet> devices_;
  const int64_t row_bytes_;
  const int64_t stripe_rows_;
  std::vector<PlanesPart> parts_;
  Placement placement_;
};

}  // namespace nearfield::multi

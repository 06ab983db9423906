// MultiTombstones: the deleted rows of a generation whose rows are spread over several devices.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/multi/device_set.h"

namespace nearfield::multi {

// The deleted rows of one device.
struct TombstonesPart {
  std::unique_ptr<backend::Tombstones> tombstones;  // null: no row of the device is deleted
  int64_t rows_live = 0;
};

class MultiTombstones : public backend::Tombstones {
 public:
  MultiTombstones(std::shared_ptr<const DeviceSet> devices, std::vector<uint64_t> words,
                  std::vector<TombstonesPart> parts)
      : devices_(std::move(devices)), words_(std::move(words)), parts_(std::move(parts)) {}

  absl::Span<const uint64_t> words() const override { return words_; }
  const TombstonesPart& part(size_t device) const { return parts_[device]; }

 private:
  const std::shared_ptr<const DeviceSet> devices_;  // outlives the parts
  const std::vector<uint64_t> words_;
  const std::vector<TombstonesPart> parts_;
};

}  // namespace nearfield::multi

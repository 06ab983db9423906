// The parts of FakeBackend for searches on the device, whose memory is host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "tests/testing/fake_backend.h"

namespace nearfield::testing {

class FakeDeviceIds final : public backend::DeviceIds {
 public:
  FakeDeviceIds(std::shared_ptr<FakeDevice> device, std::vector<uint64_t> ids)
      : device_(std::move(device)), ids_(std::move(ids)) {}
  ~FakeDeviceIds() override { device_->GiveBack(device_bytes()); }
  int64_t device_bytes() const override { return static_cast<int64_t>(ids_.size() * 8); }
  uint64_t id(uint32_t rank) const { return ids_[rank]; }

 private:
  const std::shared_ptr<FakeDevice> device_;
  const std::vector<uint64_t> ids_;
};

class FakeDeviceMemory final : public DeviceMemory {
 public:
  FakeDeviceMemory(std::shared_ptr<FakeDevice> device, int64_t bytes)
      : device_(std::move(device)), bytes_(static_cast<size_t>(bytes)) {}
  ~FakeDeviceMemory() override { device_->GiveBack(bytes()); }
  char* data() const override { return bytes_.data(); }
  int64_t bytes() const override { return static_cast<int64_t>(bytes_.size()); }

 private:
  const std::shared_ptr<FakeDevice> device_;
  mutable std::vector<char> bytes_;
};

// Returns the fault of a query, as backend::QueryFault::dimension.
std::optional<int32_t> FaultOf(Metric metric, absl::Span<const float> query);

// Sorts the rows of all lists of a query by (score, id) and writes the first k.
void WriteAnswer(absl::Span<const backend::GenerationView> generations,
                 const backend::RankedLists& lists, size_t query, const backend::DeviceTile& tile);

}  // namespace nearfield::testing

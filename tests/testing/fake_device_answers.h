// The parts of FakeBackend for searches on the device, whose memory is host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "tests/testing/fake_backend.h"

namespace nearfield::testing {

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

// Returns the id of a row of the planes, by rank.
using IdOf = absl::FunctionRef<uint64_t(const backend::RowPlanes& planes, uint32_t rank)>;

// Sorts the rows of all lists of a query by (score, id) and writes the first k as answer `at`.
void WriteAnswer(absl::Span<const backend::GenerationView> generations,
                 const backend::RankedLists& lists, size_t query, const backend::DeviceTile& tile,
                 IdOf id_of, size_t at);

// Replaces the lists of every query by its answer. If it lends and need not finish all of them, one
// query in five has lists all the same, and another one has its answer in another place than it
// said.
absl::Status FinishAll(absl::Span<const backend::GenerationView> generations,
                       const backend::QueryTile& tile, const FakeDeviceOptions& options, IdOf id_of,
                       backend::RankedLists* best);

}  // namespace nearfield::testing

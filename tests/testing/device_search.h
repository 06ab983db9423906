// Searches on the device, for tests: copies queries there, searches, and reads the answers back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"

namespace nearfield::testing {

// Copies `bytes` bytes; one of the two addresses is in device memory.
using DeviceCopy = std::function<void(void* to, const void* from, size_t bytes)>;

struct DeviceQueries {
  RowType type = RowType::kFloat32;
  std::vector<uint8_t> elements;  // [count, dim] in `type`
  std::vector<float> vectors;     // the same values
  int64_t count = 0;
  int32_t k = 1;
  std::shared_ptr<const RowFilter> filter = nullptr;
  std::optional<float> score_threshold = std::nullopt;
  void* stream = nullptr;

  // Returns the same queries for a search from the host. Borrows the vectors.
  SearchBatch Batch() const;
};

// Rounds finite vectors [count, dim] to `type`, towards zero if they would overflow.
DeviceQueries MakeDeviceQueries(absl::Span<const float> vectors, int64_t count, RowType type);

// Device memory of a search: queries and answers, with guard bytes around each part.
class DeviceBuffers {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceBuffers>> Make(Engine& engine,
                                                             const DeviceQueries& queries,
                                                             DeviceCopy copy);
  // Returns a search with these buffers.
  DeviceSearch Search() const;
  const void* queries() const { return memory_->data() + parts_[0].at; }
  // Reads the answers. Errors: DataLoss (a guard byte or the end of an answer is wrong).
  absl::StatusOr<std::vector<Neighbors>> Read() const;

 private:
  struct Part {
    size_t at = 0;
    size_t bytes = 0;
  };
  DeviceBuffers(const DeviceQueries& queries, DeviceCopy copy);

  const DeviceQueries& asked_;
  const DeviceCopy copy_;
  std::vector<Part> parts_;  // queries, scores, ids, counts
  size_t bytes_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
};

// Copies the queries to the device, searches and returns the answers.
absl::StatusOr<std::vector<Neighbors>> SearchOnDevice(Engine& engine, const Collection& collection,
                                                      const DeviceQueries& queries,
                                                      const DeviceCopy& copy);

}  // namespace nearfield::testing

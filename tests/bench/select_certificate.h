// Certificate of the selection benchmark: proves on the device, by counting, that the results of a
// whole batch are right.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"
#include "tests/engine/topk/kit/select_cuda.h"

namespace nearfield::bench {

// Works in device memory. It reads only the scores, values and indices of the buffers; rows are
// contiguous. Calls synchronize the stream.
class SelectCertificate {
 public:
  // Allocates all device memory, for batches of up to batch_max rows.
  static absl::StatusOr<std::unique_ptr<SelectCertificate>> Create(int64_t batch_max,
                                                                   cudaStream_t stream);

  // Returns OK if every row is right, without sorting: the indices are in the row, the values
  // belong to them, keys fall from place to place, and exactly k keys of the row are at least as
  // large as the last one. Errors: DataLoss (with the first faulty place).
  absl::Status Check(const select::Shape& shape, const select::Buffers& buffers);

  // Returns a hash of the values and indices of all rows.
  absl::StatusOr<uint64_t> Hash(const select::Shape& shape, const select::Buffers& buffers);

 private:
  explicit SelectCertificate(cudaStream_t stream) : stream_(stream) {}

  cudaStream_t stream_;
  select::DeviceMemory last_keys_;  // [batch_max]
  select::DeviceMemory counts_;     // [batch_max] uint64
  select::DeviceMemory word_;       // one uint64
};

}  // namespace nearfield::bench

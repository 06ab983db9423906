// Oracle of the selection benchmark: finds the right results on the device, quickly, by other means
// than the algorithms under test.
#ifndef NEARFIELD_TESTS_BENCH_SELECT_ORACLE_H_
#define NEARFIELD_TESTS_BENCH_SELECT_ORACLE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"
#include "tests/bench/select_cuda.h"

namespace nearfield::bench {

// The best scores of one row, best first.
struct BestOfRow {
  std::vector<uint32_t> value_bits;  // as a result states them, zero-extended
  std::vector<uint32_t> indices;
};

// Works in device memory. It reads only the scores, values and indices of the buffers; rows are
// contiguous. Calls synchronize the stream.
class SelectOracle {
 public:
  struct Limits {
    int64_t batch_max = 1;
    int64_t n_max = 1;
    int64_t kept_max = 1;  // largest k
  };

  // Allocates all device memory.
  static absl::StatusOr<std::unique_ptr<SelectOracle>> Create(const Limits& limits,
                                                              cudaStream_t stream);

  int64_t kept_max() const { return kept_max_; }

  // Returns the k best of one row, by a full sort of its keys.
  absl::StatusOr<BestOfRow> BestOf(const select::Shape& shape, const void* scores, int64_t row,
                                   int64_t k);

  // Returns the first k results of one row, unchanged.
  static absl::StatusOr<BestOfRow> ResultOf(const select::Shape& shape,
                                            const select::Buffers& buffers, int64_t row);

  // Returns OK if every row is right, without sorting: the indices are in the row, the values
  // belong to them, keys fall from place to place, and exactly k keys of the row are at least as
  // large as the last one. Errors: DataLoss (with the first faulty place).
  absl::Status Certify(const select::Shape& shape, const select::Buffers& buffers);

  // Returns a hash of the values and indices of all rows.
  absl::StatusOr<uint64_t> Hash(const select::Shape& shape, const select::Buffers& buffers);

 private:
  explicit SelectOracle(cudaStream_t stream) : stream_(stream) {}

  cudaStream_t stream_;
  DeviceMemory keys_;       // [2][n_max]
  DeviceMemory sort_;       // scratch of CUB
  DeviceMemory best_;       // [2][kept_max]: value bits, indices
  DeviceMemory last_keys_;  // [batch_max]
  DeviceMemory counts_;     // [batch_max] uint64
  DeviceMemory word_;       // one uint64
  int64_t kept_max_ = 0;
};

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_ORACLE_H_

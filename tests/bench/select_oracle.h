// What is right, for the selection benchmark: found on the device, quickly, by other means than the
// algorithms under test.
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

// The best of one row, best first.
struct BestOfRow {
  std::vector<uint32_t> value_bits;  // as a result states them, zero-extended
  std::vector<uint32_t> indices;
};

// Everything in device memory; of the buffers only scores, values and indices are looked at, and
// rows lie next to each other. Calls synchronise the stream.
class SelectOracle {
 public:
  struct Limits {
    int64_t batch_max = 1;
    int64_t n_max = 1;
    int64_t kept_max = 1;  // greatest k
  };

  // All device memory is taken here.
  static absl::StatusOr<std::unique_ptr<SelectOracle>> Create(const Limits& limits,
                                                              cudaStream_t stream);

  int64_t kept_max() const { return kept_max_; }

  // The k best of one row, by a full sort of its keys.
  absl::StatusOr<BestOfRow> BestOf(const select::Shape& shape, const void* scores, int64_t row,
                                   int64_t k);

  // The result's first k of one row, as it stands.
  static absl::StatusOr<BestOfRow> ResultOf(const select::Shape& shape,
                                            const select::Buffers& buffers, int64_t row);

  // Whether every row is right, without sorting: the indices are of the row, the values are theirs,
  // keys fall from place to place, and exactly k keys of the row are as great as the last one.
  // DataLoss names the first place that is not.
  absl::Status Certify(const select::Shape& shape, const select::Buffers& buffers);

  // Of the values and indices of all rows.
  absl::StatusOr<uint64_t> Hash(const select::Shape& shape, const select::Buffers& buffers);

 private:
  explicit SelectOracle(cudaStream_t stream) : stream_(stream) {}

  cudaStream_t stream_;
  DeviceMemory keys_;       // [2][n_max]
  DeviceMemory sort_;       // CUB's own
  DeviceMemory best_;       // [2][kept_max]: value bits, indices
  DeviceMemory last_keys_;  // [batch_max]
  DeviceMemory counts_;     // [batch_max] uint64
  DeviceMemory word_;       // one uint64
  int64_t kept_max_ = 0;
};

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_ORACLE_H_

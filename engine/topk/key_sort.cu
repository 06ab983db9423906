#include "engine/topk/key_sort.h"

#include <cub/device/device_radix_sort.cuh>

#include <cstddef>

namespace nearfield::gpu {

cudaError_t LaunchKeySort(const KeySort& sort, cudaStream_t stream, const uint64_t** sorted) {
  cub::DoubleBuffer<uint64_t> keys(sort.keys, sort.other);
  // CUB does not check the scratch size itself.
  std::size_t needed = 0;
  cudaError_t error = cub::DeviceRadixSort::SortKeysDescending(nullptr, needed, keys, sort.count,
                                                               sort.begin_bit, 64, stream);
  if (error != cudaSuccess) return error;
  auto scratch_bytes = static_cast<std::size_t>(sort.scratch_bytes);
  if (needed > scratch_bytes) return cudaErrorInvalidValue;
  error = cub::DeviceRadixSort::SortKeysDescending(sort.scratch, scratch_bytes, keys, sort.count,
                                                   sort.begin_bit, 64, stream);
  *sorted = keys.Current();
  return error;
}

}  // namespace nearfield::gpu

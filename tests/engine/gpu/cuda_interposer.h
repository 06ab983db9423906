// Stands between the engine and the CUDA runtime, by the linker's --wrap: counts allocations and
// plants faults.
#ifndef NEARFIELD_TESTS_ENGINE_GPU_CUDA_INTERPOSER_H_
#define NEARFIELD_TESTS_ENGINE_GPU_CUDA_INTERPOSER_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nearfield::gpu {

// Calls so far that allocate or free device or pinned memory, in all threads.
int64_t CudaAllocationCalls();

// The `countdown`-th of the next calls that enqueue or wait (copy, launch, event, synchronise)
// fails with `error`; later ones succeed, as they would not on a device that is really lost: what
// the engine must not take for health. Not enqueued or waited for in the failing call itself. 0
// takes the fault back.
void PlantCudaFault(int64_t countdown, cudaError_t error);

// Calls that a fault can hit, so far.
int64_t CudaFaultableCalls();

}  // namespace nearfield::gpu

#endif  // NEARFIELD_TESTS_ENGINE_GPU_CUDA_INTERPOSER_H_

// Interposer between the engine and the CUDA runtime, through the linker's --wrap: counts
// allocations and plants faults.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nearfield::gpu {

// Returns the number of calls so far that allocate or free device or pinned memory, in all threads.
int64_t CudaAllocationCalls();

// Makes the `countdown`-th of the next calls that enqueue or wait (copy, launch, event,
// synchronize) fail with `error`. Later calls succeed, although they would not on a device that is
// really lost: the engine must not take this for health. The failing call itself does not enqueue
// or wait. A countdown of 0 removes the fault.
void PlantCudaFault(int64_t countdown, cudaError_t error);

// Returns the number of calls so far that a fault can hit.
int64_t CudaFaultableCalls();

}  // namespace nearfield::gpu

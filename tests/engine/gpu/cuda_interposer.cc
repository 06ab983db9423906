#include "tests/engine/gpu/cuda_interposer.h"

#include <atomic>
#include <cstddef>

namespace nearfield::gpu {
namespace {

std::atomic<int64_t> allocation_calls{0};
std::atomic<int64_t> faultable_calls{0};
std::atomic<int64_t> fault_countdown{0};
std::atomic<cudaError_t> fault_error{cudaSuccess};

template <typename Real, typename... Args>
cudaError_t Counted(Real real, Args... args) {
  allocation_calls.fetch_add(1);
  return real(args...);
}

// Returns the planted error if it is due in this call, else success.
cudaError_t TakeFault() {
  faultable_calls.fetch_add(1);
  int64_t left = fault_countdown.load();
  while (left > 0 && !fault_countdown.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1 ? fault_error.load() : cudaSuccess;
}

template <typename Real, typename... Args>
cudaError_t OrFault(Real real, Args... args) {
  const cudaError_t fault = TakeFault();
  return fault != cudaSuccess ? fault : real(args...);
}

}  // namespace

int64_t CudaAllocationCalls() { return allocation_calls.load(); }

void PlantCudaFault(int64_t countdown, cudaError_t error) {
  fault_error.store(error);
  fault_countdown.store(countdown);
}

int64_t CudaFaultableCalls() { return faultable_calls.load(); }

}  // namespace nearfield::gpu

// NOLINTBEGIN(bugprone-reserved-identifier): --wrap requires these names.
extern "C" {

cudaError_t __real_cudaMalloc(void** pointer, size_t bytes);
cudaError_t __real_cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream);
cudaError_t __real_cudaMallocManaged(void** pointer, size_t bytes, unsigned flags);
cudaError_t __real_cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);
cudaError_t __real_cudaMallocHost(void** pointer, size_t bytes);
cudaError_t __real_cudaFree(void* pointer);
cudaError_t __real_cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t __real_cudaFreeHost(void* pointer);
cudaError_t __real_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream);
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** parameters);
cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __real_cudaStreamSynchronize(cudaStream_t stream);

cudaError_t __wrap_cudaMalloc(void** pointer, size_t bytes) {
  return nearfield::gpu::Counted(__real_cudaMalloc, pointer, bytes);
}
cudaError_t __wrap_cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return nearfield::gpu::Counted(__real_cudaMallocAsync, pointer, bytes, stream);
}
cudaError_t __wrap_cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return nearfield::gpu::Counted(__real_cudaMallocManaged, pointer, bytes, flags);
}
cudaError_t __wrap_cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return nearfield::gpu::Counted(__real_cudaHostAlloc, pointer, bytes, flags);
}
cudaError_t __wrap_cudaMallocHost(void** pointer, size_t bytes) {
  return nearfield::gpu::Counted(__real_cudaMallocHost, pointer, bytes);
}
cudaError_t __wrap_cudaFree(void* pointer) {
  return nearfield::gpu::Counted(__real_cudaFree, pointer);
}
cudaError_t __wrap_cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return nearfield::gpu::Counted(__real_cudaFreeAsync, pointer, stream);
}
cudaError_t __wrap_cudaFreeHost(void* pointer) {
  return nearfield::gpu::Counted(__real_cudaFreeHost, pointer);
}

cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  return nearfield::gpu::OrFault(__real_cudaMemcpyAsync, to, from, bytes, kind, stream);
}
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** parameters) {
  return nearfield::gpu::OrFault(__real_cudaLaunchKernelExC, config, kernel, parameters);
}
cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return nearfield::gpu::OrFault(__real_cudaEventRecord, event, stream);
}
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event) {
  return nearfield::gpu::OrFault(__real_cudaEventSynchronize, event);
}
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream) {
  return nearfield::gpu::OrFault(__real_cudaStreamSynchronize, stream);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

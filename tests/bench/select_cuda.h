// Owners of CUDA objects for the selection benchmark.
#ifndef NEARFIELD_TESTS_BENCH_SELECT_CUDA_H_
#define NEARFIELD_TESTS_BENCH_SELECT_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::bench {

inline absl::Status CheckCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(data_); }

  // Call once.
  absl::Status Allocate(int64_t bytes) {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMalloc(&data_, static_cast<size_t>(bytes)),
                                   absl::StrCat("cudaMalloc of ", bytes, " bytes").c_str()));
    bytes_ = bytes;
    return absl::OkStatus();
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

class TimedStream {
 public:
  TimedStream() = default;
  TimedStream(const TimedStream&) = delete;
  TimedStream& operator=(const TimedStream&) = delete;
  ~TimedStream() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Call once.
  absl::Status Create() {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                   "cudaStreamCreateWithFlags"));
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaEventCreate(&begin_), "cudaEventCreate"));
    return CheckCuda(cudaEventCreate(&end_), "cudaEventCreate");
  }

  cudaStream_t get() const { return stream_; }
  absl::Status Synchronize() const {
    return CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  // Returns the microseconds on the device between two events around the work that enqueue()
  // enqueues.
  template <typename Enqueue>
  absl::StatusOr<double> Time(Enqueue enqueue) const {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaEventRecord(begin_, stream_), "cudaEventRecord"));
    ABSL_RETURN_IF_ERROR(enqueue());
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaEventRecord(end_, stream_), "cudaEventRecord"));
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaEventSynchronize(end_), "cudaEventSynchronize"));
    float milliseconds = 0;
    ABSL_RETURN_IF_ERROR(
        CheckCuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime"));
    return static_cast<double>(milliseconds) * 1000;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }

  // Captures the work that enqueue() enqueues on the stream. Call once.
  template <typename Enqueue>
  absl::Status Capture(cudaStream_t stream, Enqueue enqueue) {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                                   "cudaStreamBeginCapture"));
    const absl::Status enqueued = enqueue();
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph_);
    ABSL_RETURN_IF_ERROR(enqueued);
    ABSL_RETURN_IF_ERROR(CheckCuda(ended, "cudaStreamEndCapture"));
    return CheckCuda(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
  }

  absl::Status Launch(cudaStream_t stream) const {
    return CheckCuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_CUDA_H_

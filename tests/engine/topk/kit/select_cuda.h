// Owners of CUDA objects for the selection tests and benchmarks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::select {

// Errors: ResourceExhausted (CUDA had no memory), Internal (CUDA failed).
inline absl::Status CheckCuda(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(std::string(call), ": ", cudaGetErrorString(error));
  cudaGetLastError();  // clears the error, unless it is sticky
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(data_); }

  // Discards the previous contents.
  absl::Status Allocate(int64_t bytes) {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaFree(data_), "cudaFree"));
    data_ = nullptr;
    bytes_ = 0;
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMalloc(&data_, static_cast<size_t>(bytes)),
                                   absl::StrCat("cudaMalloc of ", bytes, " bytes")));
    bytes_ = bytes;
    return absl::OkStatus();
  }
  // Ensures a size of at least `bytes`. Discards the previous contents if the memory grows.
  absl::Status Reserve(int64_t bytes) {
    return bytes <= bytes_ ? absl::OkStatus() : Allocate(bytes);
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

// Copies from the device after the earlier work of the stream, and waits for the copy.
template <typename T>
absl::StatusOr<std::vector<T>> Download(const T* from, int64_t count, cudaStream_t stream) {
  std::vector<T> to(static_cast<size_t>(count));
  ABSL_RETURN_IF_ERROR(CheckCuda(
      cudaMemcpyAsync(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync"));
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  return to;
}

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

  // Returns the device time of the work that enqueue() enqueues, in microseconds. Blocks until it
  // is done.
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
  absl::Status Capture(cudaStream_t stream, cudaStreamCaptureMode mode, Enqueue enqueue) {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture"));
    const absl::Status enqueued = enqueue();
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph_);
    ABSL_RETURN_IF_ERROR(enqueued);
    ABSL_RETURN_IF_ERROR(CheckCuda(ended, "cudaStreamEndCapture"));
    return CheckCuda(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
  }

  absl::StatusOr<size_t> CountNodes() const {
    size_t nodes = 0;
    ABSL_RETURN_IF_ERROR(
        CheckCuda(cudaGraphGetNodes(graph_, nullptr, &nodes), "cudaGraphGetNodes"));
    return nodes;
  }

  absl::Status Launch(cudaStream_t stream) const {
    return CheckCuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace nearfield::select

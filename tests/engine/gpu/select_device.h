// The device side of the selection's tests: calls on one stream, between guard bytes.
#ifndef NEARFIELD_TESTS_ENGINE_GPU_SELECT_DEVICE_H_
#define NEARFIELD_TESTS_ENGINE_GPU_SELECT_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"
#include "tests/engine/gpu/select_cases.h"
#include "tests/engine/gpu/select_oracle.h"

namespace nearfield::select {

// Internal where CUDA failed; ResourceExhausted where it had no memory.
absl::Status Cuda(cudaError_t error, std::string_view call);

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }

  // What it held is lost.
  absl::Status Allocate(int64_t bytes);
  // At least so many; what it held is lost where it grows.
  absl::Status Reserve(int64_t bytes) {
    return bytes <= size_ ? absl::OkStatus() : Allocate(bytes);
  }
  char* data() const { return static_cast<char*>(data_); }
  int64_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  int64_t size_ = 0;
};

// An output between guards, poisoned, so that a score never written and a write outside both show.
class GuardedOutput {
 public:
  absl::Status Arm(int64_t bytes, int64_t offset, cudaStream_t stream);
  char* data() const;
  // The bytes written; DataLoss where a guard was.
  absl::StatusOr<std::vector<char>> Collect(cudaStream_t stream) const;

 private:
  DeviceBuffer buffer_;
  int64_t bytes_ = 0;
  int64_t offset_ = 0;
};

// A workspace that calls of all shapes and algorithms share, initialised when it grows and never
// between calls. What lies around the bytes of a call is guarded meanwhile, and put back.
class GuardedWorkspace {
 public:
  absl::Status Reserve(const Selector& selector, int64_t bytes, cudaStream_t stream);
  absl::Status Arm(int64_t bytes, cudaStream_t stream);
  char* data() const;
  absl::Status Disarm(cudaStream_t stream);
  // After a call that went wrong, so that the next one is not blamed for it.
  absl::Status Reset(const Selector& selector, cudaStream_t stream);

 private:
  DeviceBuffer buffer_;
  DeviceBuffer saved_;
  int64_t capacity_ = -1;
  int64_t bytes_ = 0;
};

// Calls one after the other on a stream of its own, with buffers of their own.
class CallSite {
 public:
  explicit CallSite(const Selector& selector) : selector_(selector) {}
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  ~CallSite();

  absl::Status Init();
  cudaStream_t stream() const { return stream_; }

  absl::Status ReserveWorkspace(int64_t bytes) {
    return workspace_.Reserve(selector_, bytes, stream_);
  }
  absl::Status Upload(const HostScores& scores);
  // Instead of Upload: scores made on the device, from a 256-byte boundary on.
  absl::StatusOr<char*> AllocateScores(int64_t bytes);
  // DataLoss where the scores on the device are not these any more.
  absl::Status CheckScores(const HostScores& scores) const;

  // The buffers of a call, outputs and surroundings of the workspace poisoned; the same ones for
  // the same problem.
  absl::StatusOr<Buffers> Arm(const SelectCase& problem, std::string_view algorithm);
  // Waits until the stream is done. A kernel that hangs cannot be stopped: past the deadline this
  // says what hung and ends the process.
  absl::Status Await(std::string_view what);
  // What the last call of this problem wrote; DataLoss where it wrote outside its buffers.
  absl::StatusOr<Answer> Collect(const SelectCase& problem);

  absl::Status ResetWorkspace() { return workspace_.Reset(selector_, stream_); }

  // All of it: Arm, Run, Await, Collect.
  absl::StatusOr<Answer> Select(const SelectCase& problem, std::string_view algorithm);

 private:
  const Selector& selector_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  DeviceBuffer scores_;
  int64_t scores_begin_ = 0;
  GuardedOutput values_;
  GuardedOutput indices_;
  GuardedWorkspace workspace_;
};

// OK where they are equal; else DataLoss that shows the first difference.
absl::Status Compare(const SelectCase& problem, const Answer& expected, const Answer& got);

// The environment's variable, "" where it is not set.
std::string Environment(const char* name);

}  // namespace nearfield::select

#endif  // NEARFIELD_TESTS_ENGINE_GPU_SELECT_DEVICE_H_

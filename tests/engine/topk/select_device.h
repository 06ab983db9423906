// Calls of selectors by the tests: on one stream, with guard bytes around their buffers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"
#include "tests/engine/topk/kit/select_cases.h"
#include "tests/engine/topk/kit/select_cuda.h"
#include "tests/engine/topk/kit/select_oracle.h"

namespace nearfield::select {

// A poisoned output between guard bytes. Shows outputs that were never written and writes out of
// bounds.
class GuardedOutput {
 public:
  absl::Status Arm(int64_t bytes, int64_t offset, cudaStream_t stream);
  char* data() const;
  // Returns the bytes written. Errors: DataLoss (a guard was written).
  absl::StatusOr<std::vector<char>> Collect(cudaStream_t stream) const;

 private:
  DeviceMemory buffer_;
  int64_t bytes_ = 0;
  int64_t offset_ = 0;
};

// A workspace that calls of all shapes and algorithms share. It is initialized when it grows and
// never between calls. The bytes around those of a call are guarded during the call, and then
// restored.
class GuardedWorkspace {
 public:
  absl::Status Reserve(const Selector& selector, int64_t bytes, cudaStream_t stream);
  absl::Status Arm(int64_t bytes, cudaStream_t stream);
  char* data() const;
  absl::Status Disarm(cudaStream_t stream);
  // Resets the workspace after a call that failed, so that the next one is not affected.
  absl::Status Reset(const Selector& selector, cudaStream_t stream);

 private:
  DeviceMemory buffer_;
  DeviceMemory saved_;
  int64_t capacity_ = -1;
  int64_t bytes_ = 0;
};

// Makes calls one after the other on its own stream, with its own buffers.
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
  // Instead of Upload: allocates scores to be made on the device, aligned to 256 bytes.
  absl::StatusOr<char*> AllocateScores(int64_t bytes);
  // Errors: DataLoss (the scores on the device are no longer these).
  absl::Status CheckScores(const HostScores& scores) const;

  // Returns the buffers of a call: poisoned outputs, and a workspace between guard bytes. Repeated
  // calls for one problem return the same addresses.
  absl::StatusOr<Buffers> Arm(const SelectCase& problem, std::string_view algorithm);
  // Blocks until the stream is done. A kernel that hangs cannot be stopped: after the deadline this
  // prints the name of the call and ends the process.
  absl::Status Await(std::string_view what);
  // Returns what the last call of this problem wrote. Errors: DataLoss (it wrote outside its
  // buffers).
  absl::StatusOr<Answer> Collect(const SelectCase& problem);

  absl::Status ResetWorkspace() { return workspace_.Reset(selector_, stream_); }

  // Runs Arm, Run, Await and Collect.
  absl::StatusOr<Answer> Select(const SelectCase& problem, std::string_view algorithm);

 private:
  // Returns null if there are no bounds.
  absl::StatusOr<const int32_t*> UploadBounds(const std::vector<int32_t>& bounds,
                                              DeviceMemory& to) const;

  const Selector& selector_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  DeviceMemory scores_;
  int64_t scores_begin_ = 0;
  DeviceMemory row_begin_;
  DeviceMemory row_end_;
  GuardedOutput values_;
  GuardedOutput indices_;
  GuardedWorkspace workspace_;
};

// Returns the environment variable, "" if it is not set.
std::string Environment(const char* name);

}  // namespace nearfield::select

// The current device of a thread, for callers that use several. Includes no CUDA header; a build
// without CUDA links a stub.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "nearfield/engine/select.h"

namespace nearfield::select {

// Makes a device current while it exists; then the earlier one is current again.
class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  // Unavailable if the device could not be made current.
  const absl::Status& status() const { return status_; }

 private:
  int32_t before_ = -1;  // -1: nothing to restore
  absl::Status status_;
};

// Blocks until the work of the stream is done. Errors: Unavailable.
absl::Status WaitFor(Stream stream);

}  // namespace nearfield::select

// The current device in a build without CUDA: there is none, and no selector that would need it.
#include "engine/topk/current_device.h"

namespace nearfield::select {

CurrentDevice::CurrentDevice(int32_t /*device*/) {}
CurrentDevice::~CurrentDevice() = default;

absl::Status WaitFor(Stream /*stream*/) {
  return absl::UnavailableError("a stream: built without CUDA");
}

}  // namespace nearfield::select

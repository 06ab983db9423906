// Makes a GPU current for a while, and waits for streams.
#include "engine/topk/current_device.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"

namespace nearfield::select {
namespace {

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // later calls on this thread must not find it
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

}  // namespace

CurrentDevice::CurrentDevice(int32_t device) {
  int now = 0;
  status_ = Check(cudaGetDevice(&now), "cudaGetDevice");
  if (!status_.ok() || now == device) return;
  status_ = Check(cudaSetDevice(device), "cudaSetDevice");
  if (status_.ok()) before_ = now;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

absl::Status WaitFor(Stream stream) {
  return Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace nearfield::select

// A library with the functions of NVML that the server calls, of one device with fixed figures.
#pragma once

namespace nearfield::server {

inline constexpr int kFakeNvmlDevices = 1;

}  // namespace nearfield::server

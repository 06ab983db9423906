// A warp: the threads that execute together. Host and device.
#pragma once

#include <cstdint>

namespace nearfield::gpu {

inline constexpr int kWarp = 32;                    // lanes
inline constexpr uint32_t kFullWarp = 0xffffffffu;  // the mask of all lanes

}  // namespace nearfield::gpu

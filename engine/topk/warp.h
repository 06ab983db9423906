// A warp: the threads that execute together. Host and device.
#ifndef NEARFIELD_ENGINE_TOPK_WARP_H_
#define NEARFIELD_ENGINE_TOPK_WARP_H_

#include <cstdint>

namespace nearfield::gpu {

inline constexpr int kWarp = 32;                    // lanes
inline constexpr uint32_t kFullWarp = 0xffffffffu;  // the mask of all lanes

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_TOPK_WARP_H_

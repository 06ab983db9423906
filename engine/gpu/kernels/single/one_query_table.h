// The one-query kernels, one per row type.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SINGLE_ONE_QUERY_TABLE_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SINGLE_ONE_QUERY_TABLE_H_

#include "engine/gpu/kernels/single/one_query.h"

namespace nearfield::gpu {

using OneQueryPointer = void (*)(OneQueryArgs);
OneQueryPointer OneQueryFloat32();
OneQueryPointer OneQueryFloat16();
OneQueryPointer OneQueryBFloat16();

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SINGLE_ONE_QUERY_TABLE_H_

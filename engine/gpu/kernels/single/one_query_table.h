// The one-query kernels, one per row type.
#pragma once

#include "engine/gpu/kernels/single/one_query.h"

namespace nearfield::gpu {

using OneQueryPointer = void (*)(OneQueryArgs);
OneQueryPointer OneQueryFloat32();
OneQueryPointer OneQueryFloat16();
OneQueryPointer OneQueryBFloat16();

}  // namespace nearfield::gpu

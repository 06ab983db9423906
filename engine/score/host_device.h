// NEARFIELD_HOST_DEVICE: compiles one definition with the host compiler and with nvcc.
#pragma once

#ifdef __CUDACC__
#define NEARFIELD_HOST_DEVICE __host__ __device__
#else
#define NEARFIELD_HOST_DEVICE
#endif

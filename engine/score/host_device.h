// NEARFIELD_HOST_DEVICE: compiles one definition with the host compiler and with nvcc.
#ifndef NEARFIELD_ENGINE_SCORE_HOST_DEVICE_H_
#define NEARFIELD_ENGINE_SCORE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define NEARFIELD_HOST_DEVICE __host__ __device__
#else
#define NEARFIELD_HOST_DEVICE
#endif

#endif  // NEARFIELD_ENGINE_SCORE_HOST_DEVICE_H_

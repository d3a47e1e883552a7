/* CUDA 13's wheels hold the runtime's headers beside CUPTI's, but not this one (it comes with nvcc), which they include.
   Only declarations of CUPTI's are compiled, and to a host compiler these words mean nothing. */
#ifndef PROFSUITE_HOST_DEFINES_STUB_H
#define PROFSUITE_HOST_DEFINES_STUB_H

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define CUDARTAPI

#endif

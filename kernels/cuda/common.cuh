/* What the .cu files share: errors of launches, activations, bf16. */
#ifndef TW_KERNELS_CUDA_COMMON_CUH
#define TW_KERNELS_CUDA_COMMON_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.h"

namespace common {

/* The bits of an entry that hold its value. */
constexpr uint32_t VALUE_BITS = 0xffffff00u;

inline enum tw_status launched(const char *kernel, struct tw_error *err)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        return TW_OK;
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: launch of %s: %s", kernel,
                        cudaGetErrorString(error));
}

/* Copies the tensor map into a kernel's parameter. */
inline CUtensorMap map_of(const struct twp_map *map)
{
    static_assert(sizeof(CUtensorMap) == sizeof map->opaque, "a tensor map");
    CUtensorMap out;
    memcpy(&out, map->opaque, sizeof out);
    return out;
}

__device__ __forceinline__ float low_half(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

__device__ __forceinline__ float high_half(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

/* Two pre-activations to the activation's values before squaring, bf16. The
 * comparison is in fp32. NaN stays NaN, -0 and what isn't active is 0. */
template <int ACT> __device__ __forceinline__ uint32_t cut_pair(float low, float high, float t)
{
    if (ACT != TW_ACT_FATRELU)
        return hopper::relu_pair(low, high);
    return hopper::round_pair(low <= t ? 0.0f : low, high <= t ? 0.0f : high);
}

/* A cut value to the value that is packed, and that the dense path takes: 24
 * bits of fp32. */
template <int ACT> __device__ __forceinline__ float packed_value(float r)
{
    if (ACT == TW_ACT_RELU2)
        return __uint_as_float(__float_as_uint(__fmul_rn(r, r)) & VALUE_BITS);
    return r;
}

} // namespace common

#endif

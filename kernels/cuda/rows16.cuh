/* Rows of 16-bit numbers as fp32, eight at a time where they are aligned. */
#ifndef TW_KERNELS_CUDA_ROWS16_CUH
#define TW_KERNELS_CUDA_ROWS16_CUH

#include "kernels/cuda/common.cuh"

namespace rows16 {

template <enum tw_dtype T> __device__ __forceinline__ float widen(uint16_t bits)
{
    return common::low_half<T>(bits);
}

template <enum tw_dtype T> __device__ __forceinline__ uint16_t narrow(float value)
{
    return (uint16_t)hopper::round_pair<T>(value, 0.0f);
}

template <enum tw_dtype T> __device__ __forceinline__ void widen8(float (&out)[8], const uint4 &in)
{
    const uint32_t pair[4] = {in.x, in.y, in.z, in.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[2 * i] = common::low_half<T>(pair[i]);
        out[2 * i + 1] = common::high_half<T>(pair[i]);
    }
}

template <enum tw_dtype T> __device__ __forceinline__ uint4 narrow8(const float (&in)[8])
{
    return make_uint4(hopper::round_pair<T>(in[0], in[1]), hopper::round_pair<T>(in[2], in[3]),
                      hopper::round_pair<T>(in[4], in[5]), hopper::round_pair<T>(in[6], in[7]));
}

/* Can these rows be read and written 16 bytes at a time? */
inline bool is_wide(int64_t width, const void *a, const void *b, const void *c)
{
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    return width % 8 == 0 && all % 16 == 0;
}

} // namespace rows16

#endif

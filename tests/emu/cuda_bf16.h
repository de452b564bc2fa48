/* Of CUDA's bfloat16: storage and conversions. */
#ifndef TESTS_EMU_CUDA_BF16_H
#define TESTS_EMU_CUDA_BF16_H

#include "cuda_runtime.h"

struct alignas(2) __nv_bfloat16 {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 v)
{
    return emu::widen_bf16(v.bits);
}
inline __nv_bfloat16 __float2bfloat16(float v)
{
    return {emu::round_bf16(v)};
}
inline __nv_bfloat16 __float2bfloat16_rn(float v)
{
    return {emu::round_bf16(v)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return {emu::widen_bf16(v.x.bits), emu::widen_bf16(v.y.bits)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 v)
{
    return {{emu::round_bf16(v.x)}, {emu::round_bf16(v.y)}};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {{emu::round_bf16(x)}, {emu::round_bf16(y)}};
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v)
{
    return v.bits;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v)
{
    return {v};
}

#endif

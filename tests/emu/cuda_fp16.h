/* Of CUDA's fp16: storage and conversions. */
#ifndef TESTS_EMU_CUDA_FP16_H
#define TESTS_EMU_CUDA_FP16_H

#include "cuda_runtime.h"

struct alignas(2) __half {
    uint16_t bits;
};
struct alignas(4) __half2 {
    __half x, y;
};
typedef __half half;
typedef __half2 half2;

inline float __half2float(__half v)
{
    return emu::widen_f16(v.bits);
}
inline __half __float2half(float v)
{
    return {emu::round_f16(v)};
}
inline __half __float2half_rn(float v)
{
    return {emu::round_f16(v)};
}
inline float2 __half22float2(__half2 v)
{
    return {emu::widen_f16(v.x.bits), emu::widen_f16(v.y.bits)};
}
inline __half2 __float22half2_rn(float2 v)
{
    return {{emu::round_f16(v.x)}, {emu::round_f16(v.y)}};
}
inline __half2 __floats2half2_rn(float x, float y)
{
    return {{emu::round_f16(x)}, {emu::round_f16(y)}};
}
inline unsigned short __half_as_ushort(__half v)
{
    return v.bits;
}
inline __half __ushort_as_half(unsigned short v)
{
    return {v};
}

#endif

/* 16-bit numbers, and the instructions that flush small ones. */
#ifndef TESTS_EMU_NUMBERS_H
#define TESTS_EMU_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace emu
{

inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest even; NaN is 0x7fff. */
inline uint16_t round_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline float widen_bf16(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}
inline uint16_t round_f16(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u,
             size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return 0x7fff;
    if (size >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) /* units of 2^-24, rounded by adding */
        return (uint16_t)(sign |
                          (bits_of(float_of(size) + 0.5f) - 0x3f000000u));
    size += 0xfffu + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000u) >> 13);
}
inline float widen_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fff;
    if (size < 0x400) /* units of 2^-24 */
        return float_of(sign | bits_of((float)size * 0x1p-24f));
    if (size >= 0x7c00)
        return float_of(sign | 0x7f800000u | (size & 0x3ff) << 13);
    return float_of(sign | ((size << 13) + 0x38000000u));
}

inline float flush(float v)
{
    return (bits_of(v) & 0x7f800000u) == 0 ? copysignf(0.0f, v) : v;
}

} // namespace emu

#endif

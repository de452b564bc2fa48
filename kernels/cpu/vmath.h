/* Sixteen floats at a time: loads, exp, tanh. GCC vectors, so that one text
 * serves every instruction set (clones.h); all functions take pointers because
 * the ABI of vector arguments differs between them.
 *
 * Every lane is computed alone: a value's result doesn't depend on its lane.
 * NaN gives NaN in each function. */
#ifndef TW_KERNELS_CPU_VMATH_H
#define TW_KERNELS_CPU_VMATH_H

#include <stdint.h>
#include <string.h>

#define TWP_LANES 16
#define TWP_INLINE static inline __attribute__((always_inline))

typedef float twp_v16 __attribute__((vector_size(64)));
typedef int32_t twp_i16 __attribute__((vector_size(64)));
typedef uint32_t twp_u16 __attribute__((vector_size(64)));
typedef float twp_v8 __attribute__((vector_size(32)));
typedef double twp_d8 __attribute__((vector_size(64)));

TWP_INLINE void twp_load(twp_v16 *v, const float *from)
{
    memcpy(v, from, sizeof *v);
}

TWP_INLINE void twp_store(float *to, const twp_v16 *v)
{
    memcpy(to, v, sizeof *v);
}

/* The first count (1 .. 16) lanes; the others are fill. */
TWP_INLINE void twp_load_part(twp_v16 *v, const float *from, int64_t count,
                              float fill)
{
    if (count >= TWP_LANES) {
        twp_load(v, from);
        return;
    }
    float part[TWP_LANES];
    for (int i = 0; i < TWP_LANES; i++)
        part[i] = fill;
    memcpy(part, from, (size_t)count * sizeof *part);
    twp_load(v, part);
}

TWP_INLINE void twp_store_part(float *to, const twp_v16 *v, int64_t count)
{
    if (count >= TWP_LANES)
        twp_store(to, v);
    else
        memcpy(to, v, (size_t)count * sizeof *to);
}

/* Lanes of yes where mask is -1, of no where it is 0. */
TWP_INLINE void twp_select(twp_v16 *v, const twp_i16 *mask, const twp_v16 *yes,
                           const twp_v16 *no)
{
    *v = (twp_v16)((*mask & (twp_i16)*yes) | (~*mask & (twp_i16)*no));
}

/* Comparisons by sign bits, -1 for true: gcc 12 takes vector comparisons that
 * are wider than the processor's vectors apart into single lanes. */
TWP_INLINE void twp_is_nan(twp_i16 *mask, const twp_v16 *v)
{
    *mask = (0x7f800000 - ((twp_i16)*v & 0x7fffffff)) >> 31;
}

/* v < bound; false for NaN; -0 counts as less than 0. */
TWP_INLINE void twp_is_less(twp_i16 *mask, const twp_v16 *v, float bound)
{
    twp_i16 is_nan;
    twp_is_nan(&is_nan, v);
    *mask = (twp_i16)(*v - bound) >> 31 & ~is_nan;
}

/* The larger of each lane of a and b, of which a isn't NaN; a where b is. */
TWP_INLINE void twp_max(twp_v16 *a, const twp_v16 *b)
{
    twp_i16 is_nan, is_larger = (twp_i16)(*a - *b) >> 31;
    twp_is_nan(&is_nan, b);
    is_larger &= ~is_nan;
    twp_select(a, &is_larger, b, a);
}

TWP_INLINE void twp_abs(twp_v16 *v)
{
    *v = (twp_v16)((twp_i16)*v & 0x7fffffff);
}

/* The 16 lanes as doubles in two halves, added to sum: for long sums. */
TWP_INLINE void twp_add_wide(twp_d8 *sum, const twp_v16 *v)
{
    twp_v8 half[2];
    memcpy(half, v, sizeof half);
    *sum += __builtin_convertvector(half[0], twp_d8);
    *sum += __builtin_convertvector(half[1], twp_d8);
}

TWP_INLINE double twp_sum_wide(const twp_d8 *v)
{
    double sum = 0;
    for (int i = 0; i < 8; i++)
        sum += (*v)[i];
    return sum;
}

TWP_INLINE float twp_sum_lanes(const twp_v16 *v)
{
    float lane[TWP_LANES];
    twp_store(lane, v);
    for (int half = TWP_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

TWP_INLINE float twp_max_lanes(const twp_v16 *v)
{
    float best = (*v)[0];
    for (int i = 1; i < TWP_LANES; i++)
        best = (*v)[i] > best ? (*v)[i] : best;
    return best;
}

/* e^x within 2 ulp; 0 below -86.6 (results near the subnormals, which would
 * slow the products that take them), +inf above 88.73. x = n ln 2 + r, with
 * ln 2 in two parts of which the first times n is exact; the polynomial in r
 * is that of Cephes' expf. */
TWP_INLINE void twp_exp(twp_v16 *v)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds */
    twp_v16 x = *v;
    twp_i16 is_low = (twp_i16)(x + 86.6f) >> 31;
    twp_i16 is_high = (twp_i16)(88.73f - x) >> 31, is_nan;
    twp_is_nan(&is_nan, v);
    twp_v16 shifted = x * 1.44269504f + magic;
    twp_v16 n = shifted - magic;
    twp_v16 r = x - n * 0.693359375f + n * 2.12194440e-4f;
    twp_v16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* 2^(n-1), doubled afterwards: 2^128 is no float. The shifted number's
     * low bits are n. */
    twp_u16 scale = ((twp_u16)shifted << 23) + (126u << 23);
    twp_i16 e = (twp_i16)((p + p) * (twp_v16)scale);
    e = (is_high & 0x7f800000) | (~(is_high | is_low) & e);
    *v = (twp_v16)(e | (is_nan & (twp_i16)x));
}

/* tanh within 4 ulp: Cephes' polynomial near 0, else by e^2x. */
TWP_INLINE void twp_tanh(twp_v16 *v)
{
    twp_v16 x = *v, z = x * x, size = x;
    twp_abs(&size);
    twp_v16 p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    twp_v16 e = size + size;
    twp_exp(&e);
    e = 1.0f - 2.0f / (e + 1.0f);
    e = (twp_v16)((twp_i16)e | ((twp_i16)x & INT32_MIN));
    twp_i16 is_small;
    twp_is_less(&is_small, &size, 0.625f);
    twp_select(v, &is_small, &p, &e);
}

#endif

/* The vector vocabulary of the bodies: included by simd_*.c after TWP_VW
 * (floats a vector) and TWP_TARGET (function attribute) are defined. No vector
 * leaves a translation unit. */
#ifndef TW_KERNELS_CPU_SIMD_VECTOR_H
#define TW_KERNELS_CPU_SIMD_VECTOR_H

#include <string.h>

#include "kernels/cpu/simd.h"

#ifndef TWP_VW
#define TWP_VW 4
#define TWP_TARGET
#endif
#if TWP_VW > 4
#include <immintrin.h>
#endif

#define VW TWP_VW
#define FN static inline TWP_TARGET __attribute__((always_inline, unused))

typedef float vec __attribute__((vector_size(4 * VW)));
typedef int32_t ivec __attribute__((vector_size(4 * VW)));
typedef uint32_t uvec __attribute__((vector_size(4 * VW)));

FN vec load(const void *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

FN uvec load_bits(const void *p)
{
    uvec v;
    memcpy(&v, p, sizeof v);
    return v;
}

FN void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

FN vec splat(float x)
{
    return x - (vec){0};
}

/* mask ? a : b, mask from a comparison. */
FN vec choose(ivec mask, vec a, vec b)
{
    return (vec)(((ivec)a & mask) | ((ivec)b & ~mask));
}

FN vec magnitude(vec v)
{
    return (vec)((ivec)v & 0x7fffffff);
}

#if VW == 16
#define FMA(a, b, c) ((vec)_mm512_fmadd_ps(a, b, c))

FN uint32_t bits_nonzero(vec v)
{
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

FN uint32_t bits_above(vec v, vec threshold)
{
    return _mm512_cmp_ps_mask(magnitude(v), threshold, _CMP_NLE_UQ);
}

FN vec load_half(const uint16_t *p)
{
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

FN __m128 quarter(vec v)
{
    __m256 low = _mm512_castps512_ps256(v);
    __m256 high =
        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m256 sum = _mm256_add_ps(low, high);
    return _mm_add_ps(_mm256_castps256_ps128(sum),
                      _mm256_extractf128_ps(sum, 1));
}
#elif VW == 8
#define FMA(a, b, c) ((vec)_mm256_fmadd_ps(a, b, c))

FN uint32_t bits_nonzero(vec v)
{
    return (uint32_t)_mm256_movemask_ps(
        _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}

FN uint32_t bits_above(vec v, vec threshold)
{
    return (uint32_t)_mm256_movemask_ps(
        _mm256_cmp_ps(magnitude(v), threshold, _CMP_NLE_UQ));
}

FN vec load_half(const uint16_t *p)
{
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

FN __m128 quarter(vec v)
{
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
#else
#define FMA(a, b, c) ((a) * (b) + (c))

FN uint32_t bits_nonzero(vec v)
{
    uint32_t bits = 0;
    for (int i = 0; i < VW; i++)
        bits |= (uint32_t)(v[i] != 0) << i;
    return bits;
}

FN uint32_t bits_above(vec v, vec threshold)
{
    uint32_t bits = 0;
    vec size = magnitude(v);
    for (int i = 0; i < VW; i++)
        bits |= (uint32_t) !(size[i] <= threshold[i]) << i;
    return bits;
}

FN vec load_half(const uint16_t *p)
{
    vec v;
    for (int i = 0; i < VW; i++)
        v[i] = tw_f16_to_f32(p[i]);
    return v;
}
#endif

/* The sums of four vectors, each as a tree of halves. */
FN void reduce4(const vec v[4], float out[4])
{
#if VW > 4
    __m128 low = _mm_hadd_ps(quarter(v[0]), quarter(v[1]));
    __m128 high = _mm_hadd_ps(quarter(v[2]), quarter(v[3]));
    _mm_storeu_ps(out, _mm_hadd_ps(low, high));
#else
    for (int i = 0; i < 4; i++)
        out[i] = (v[i][0] + v[i][1]) + (v[i][2] + v[i][3]);
#endif
}

/* t[s][q] = row[q][i + s] */
FN void transpose4(float t[4][4], const float *const *row, int64_t i)
{
#if VW > 4
    __m128 a = _mm_loadu_ps(row[0] + i), b = _mm_loadu_ps(row[1] + i);
    __m128 c = _mm_loadu_ps(row[2] + i), d = _mm_loadu_ps(row[3] + i);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(t[0], a);
    _mm_storeu_ps(t[1], b);
    _mm_storeu_ps(t[2], c);
    _mm_storeu_ps(t[3], d);
#else
    for (int s = 0; s < 4; s++)
        for (int q = 0; q < 4; q++)
            t[s][q] = row[q][i + s];
#endif
}

/* The even and the odd elements of (a, b), and back. */
FN void split(vec *a, vec *b)
{
#if VW == 16
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                           20, 22, 24, 26, 28, 30);
    __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    vec low = (vec)_mm512_permutex2var_ps(*a, even, *b);
    *b = (vec)_mm512_permutex2var_ps(*a, odd, *b);
    *a = low;
#else
    vec low, high;
    for (int i = 0; i < VW; i++) {
        low[i] = 2 * i < VW ? (*a)[2 * i % VW] : (*b)[2 * i % VW];
        high[i] = 2 * i < VW ? (*a)[2 * i % VW + 1] : (*b)[2 * i % VW + 1];
    }
    *a = low;
    *b = high;
#endif
}

FN void join(vec *even, vec *odd)
{
#if VW == 16
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                            5, 21, 6, 22, 7, 23);
    __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    vec low = (vec)_mm512_permutex2var_ps(*even, first, *odd);
    *odd = (vec)_mm512_permutex2var_ps(*even, second, *odd);
    *even = low;
#else
    vec low, high;
    for (int i = 0; i < VW; i++) {
        low[i] = i % 2 ? (*odd)[i / 2] : (*even)[i / 2];
        high[i] = i % 2 ? (*odd)[(VW + i) / 2] : (*even)[(VW + i) / 2];
    }
    *even = low;
    *odd = high;
#endif
}

#endif

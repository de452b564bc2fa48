/* Counting over rows of bits: bodies of simd_*.c. Integers throughout; the sum
 * of magnitudes runs in 16 lanes of doubles, each in ascending order. */
#ifndef TW_KERNELS_CPU_SIMD_COUNT_H
#define TW_KERNELS_CPU_SIMD_COUNT_H

#include "kernels/cpu/simd_vector.h"

/* All ones in the lanes whose bit is set. */
FN ivec lanes_set(uint64_t bits)
{
    ivec one;
    for (int i = 0; i < VW; i++)
        one[i] = 1 << i;
    ivec word = (int32_t)(bits & 0xffff) - (ivec){0};
    return (word & one) != 0;
}

static TWP_TARGET void mask(float *v, int64_t n, const uint64_t *bits)
{
    for (int64_t i = 0; i < n; i += VW) {
        ivec set = lanes_set(bits[i / 64] >> (i % 64));
        store(v + i, (vec)((ivec)load(v + i) & set));
    }
}

static TWP_TARGET uint32_t tally(const uint64_t *bits, int64_t n, uint32_t row,
                                 uint32_t *fired, uint32_t *first,
                                 uint32_t *last)
{
    uint32_t count = 0;
    uvec here = row - (uvec){0};
    for (int64_t q = 0; q < n / 64; q++) {
        if (!bits[q])
            continue;
        count += (uint32_t)__builtin_popcountll(bits[q]);
        if (!fired)
            continue;
        for (int64_t i = 64 * q; i < 64 * (q + 1); i += VW) {
            uvec set = (uvec)lanes_set(bits[q] >> (i % 64));
            uvec f = load_bits(fired + i) - set;
            uvec a = load_bits(first + i), z = load_bits(last + i);
            uvec earlier = (uvec)(here < a) & set;
            uvec later = (uvec)(here > z) & set;
            a = (a & ~earlier) | (here & earlier);
            z = (z & ~later) | (here & later);
            memcpy(fired + i, &f, sizeof f);
            memcpy(first + i, &a, sizeof a);
            memcpy(last + i, &z, sizeof z);
        }
    }
    return count;
}

typedef float half_vec __attribute__((vector_size(2 * VW)));
typedef double wide_vec __attribute__((vector_size(4 * VW)));
typedef int64_t wide_bits __attribute__((vector_size(4 * VW)));

static TWP_TARGET void lanes(const float *h, int64_t n, double lane[16])
{
    wide_vec sum[32 / VW];
    memcpy(sum, lane, sizeof sum);
    for (int64_t i = 0; i < n; i += 16)
        for (int j = 0; j < 32 / VW; j++) {
            half_vec v;
            memcpy(&v, h + i + j * (VW / 2), sizeof v);
            wide_vec d = __builtin_convertvector(v, wide_vec);
            sum[j] += (wide_vec)((wide_bits)d & INT64_MAX);
        }
    memcpy(lane, sum, sizeof sum);
}

#endif

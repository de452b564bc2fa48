/* The packing epilogue of the gate product: a body of simd_*.c.
 *
 *   c = act(c + bias); pattern = c != 0; (value, column) of the first S
 *
 * Shapes: one row of a tile, c[256]; value[S], column[S]; pattern 4 x 64 bits.
 * Bytes: 1 KiB of c read and written in cache; work: 256 / VW compares and a
 * bit scan of the non-zeros, which are few. */
#ifndef TW_KERNELS_CPU_SIMD_PACK_H
#define TW_KERNELS_CPU_SIMD_PACK_H

#include "kernels/cpu/simd_act.h"

static TWP_TARGET void bits_of(const float *c, int64_t n, float threshold,
                               uint64_t *bits)
{
    vec limit = splat(threshold);
    for (int64_t q = 0; q < n / 64; q++) {
        uint64_t b = 0;
        for (int i = 0; i < 64; i += VW) {
            vec v = load(c + 64 * q + i);
            b |= (uint64_t)(threshold < 0 ? bits_nonzero(v)
                                          : bits_above(v, limit))
                 << i;
        }
        bits[q] = b;
    }
}

static TWP_TARGET void above(const float *v, int64_t n, float threshold,
                             uint64_t *bits)
{
    vec limit = splat(threshold);
    for (int64_t q = 0; q < n / 64; q++) {
        uint64_t b = 0;
        for (int i = 0; i < 64; i += VW) {
            vec size = magnitude(load(v + 64 * q + i));
            vec over = choose(size > limit, splat(1), (vec){0});
            b |= (uint64_t)bits_nonzero(over) << i;
        }
        bits[q] = b;
    }
}

static TWP_TARGET int pack(const struct twp_pack *rule, float *c,
                           const float *bias, float *value, uint8_t *column,
                           uint64_t bits[4], uint8_t part[4])
{
    activate(rule->activation, c, bias, TWP_TILE);
    bits_of(c, TWP_TILE, rule->threshold, bits);
    int count = 0, slots = rule->slots;
    for (int q = 0; q < 4; q++) {
        int here = __builtin_popcountll(bits[q]);
        part[q] = (uint8_t)here;
        count += here;
    }
    if (count > slots)
        return count; // routed: its slots are not read
    int at = 0;
    for (int q = 0; q < 4; q++)
        for (uint64_t b = bits[q]; b; b &= b - 1, at++) {
            int i = 64 * q + __builtin_ctzll(b);
            value[at] = c[i];
            column[at] = (uint8_t)i;
        }
    return count;
}

#endif
